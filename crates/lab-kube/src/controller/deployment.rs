//! Deployment controller: keeps one ReplicaSet for each pod template, and moves the replicas from the old to the new
//! ReplicaSet.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use crate::object::{self, annotation, name, namespace, number, text};
use crate::store::State;

const ID: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn pass(state: &mut State) {
    for deployment in state.all(ID) {
        if !object::is_being_deleted(&deployment) && !object::flag(&deployment, "/spec/paused") {
            roll(state, &deployment);
        }
        write_status(state, &deployment);
    }
}

fn sets(state: &State, deployment: &Value) -> Vec<Arc<Value>> {
    let all = state.in_namespace(SETS, namespace(deployment));
    all.filter(|set| object::is_controlled_by(set, deployment)).cloned().collect()
}

fn revision(set: &Value) -> u64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn roll(state: &mut State, deployment: &Value) {
    let all = sets(state, deployment);
    let new = set_of_template(deployment, &all);
    let is_old = |set: &&Arc<Value>| new.is_none_or(|new| !Arc::ptr_eq(set, new));
    let old: Vec<&Arc<Value>> = all.iter().filter(is_old).collect();
    let newest = all.iter().map(|set| revision(set)).max().unwrap_or_default();
    let replicas = |set: &Value| number(set, "/spec/replicas").unwrap_or_default();
    let desired = number(deployment, "/spec/replicas").unwrap_or(1);
    let strategy = &deployment["spec"]["strategy"];
    let is_recreate = strategy["type"] == "Recreate";
    let (surge, missing) = if is_recreate {
        (0, desired)
    } else {
        let limits = &strategy["rollingUpdate"];
        let surge = pod::share(&limits["maxSurge"], desired, true);
        let missing = pod::share(&limits["maxUnavailable"], desired, false);
        (surge, if surge + missing == 0 { 1 } else { missing })
    };
    let old_total: u64 = old.iter().map(|set| replicas(set)).sum();
    let old_pods: usize = old.iter().map(|set| pod::owned(state, set).len()).sum();
    let room = (desired + surge).saturating_sub(old_total);
    let aim = if is_recreate && old_pods > 0 { 0 } else { room.min(desired) };
    let (new_replicas, new_ready) = match new {
        None => {
            make_set(state, deployment, aim, newest + 1);
            (aim, 0)
        }
        Some(set) => {
            let now = replicas(set);
            let aim = if now > desired { desired } else { aim.max(now.min(desired)) };
            scale(state, set, aim);
            if revision(set) < newest {
                mark(state, SETS, set, newest + 1);
            }
            (aim, number(set, "/status/availableReplicas").unwrap_or_default())
        }
    };
    let current = if new.is_some_and(|set| revision(set) == newest) { newest } else { newest + 1 };
    mark(state, ID, deployment, current);
    // Old pods that are not ready may always be deleted, because this does not reduce availability. Of the ready old pods, only
    // as many may be deleted as `maxUnavailable` allows.
    let old_ready: u64 =
        old.iter().filter_map(|set| number(set, "/status/availableReplicas")).sum();
    let least = desired.saturating_sub(missing);
    let mut spare = (old_ready + new_ready.min(new_replicas)).saturating_sub(least)
        + old_total.saturating_sub(old_ready);
    for set in &old {
        let less = replicas(set).min(spare);
        spare -= less;
        scale(state, set, replicas(set) - less);
    }
    forget(state, deployment, &old);
}

/// Finds the ReplicaSet of the deployment's template. The comparison ignores the order of fields, because a rollback may write
/// the fields in another order.
fn set_of_template<'s>(deployment: &Value, sets: &'s [Arc<Value>]) -> Option<&'s Arc<Value>> {
    let desired = &deployment["spec"]["template"];
    sets.iter().find(|set| {
        let mut template = set["spec"]["template"].clone();
        object::entry(&mut template["metadata"], "labels").shift_remove(HASH);
        template == *desired
    })
}

fn make_set(state: &mut State, deployment: &Value, replicas: u64, revision: u64) {
    let hash = pod::template_hash(&deployment["spec"]["template"]);
    let mut template = deployment["spec"]["template"].clone();
    let mut selector = deployment["spec"]["selector"].clone();
    object::entry(&mut template["metadata"], "labels")
        .insert(HASH.to_owned(), hash.as_str().into());
    object::entry(&mut selector, "matchLabels").insert(HASH.to_owned(), hash.as_str().into());
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)),
            "namespace": namespace(deployment),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": [object::reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    // Creation fails in a terminating namespace. The deployment is then deleted with its namespace.
    state.create_inside(SETS, set).ok();
}

fn scale(state: &mut State, set: &Value, replicas: u64) {
    state.change(SETS, namespace(set), name(set), |set| {
        set["spec"]["replicas"] = replicas.into();
    });
}

fn mark(state: &mut State, id: &str, object: &Value, revision: u64) {
    state.change(id, namespace(object), name(object), |object| {
        object::entry(&mut object["metadata"], "annotations")
            .insert(REVISION.to_owned(), revision.to_string().into());
    });
}

/// Deletes ReplicaSets without replicas if there are more of them than `revisionHistoryLimit`.
fn forget(state: &mut State, deployment: &Value, old: &[&Arc<Value>]) {
    let limit = number(deployment, "/spec/revisionHistoryLimit").unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut empty: Vec<_> = old
        .iter()
        .filter(|set| {
            number(set, "/spec/replicas") == Some(0) && number(set, "/status/replicas") == Some(0)
        })
        .collect();
    empty.sort_by_key(|set| std::cmp::Reverse(revision(set)));
    for set in empty.iter().skip(limit) {
        state.delete_inside(SETS, namespace(set), name(set)).ok();
    }
}

fn write_status(state: &mut State, deployment: &Value) {
    let all = sets(state, deployment);
    let sum = |pointer: &str| -> u64 { all.iter().filter_map(|set| number(set, pointer)).sum() };
    let new = set_of_template(deployment, &all);
    let updated = new.and_then(|set| number(set, "/status/replicas")).unwrap_or_default();
    let (total, available) = (sum("/status/replicas"), sum("/status/availableReplicas"));
    let desired = number(deployment, "/spec/replicas").unwrap_or(1);
    let limits = &deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
    let least = desired.saturating_sub(pod::share(limits, desired, false));
    let is_done = updated == desired && total == desired && available == desired;
    let set_name = new.map(|set| name(set).to_owned()).unwrap_or_default();
    let failure = all.iter().find_map(|set| object::condition(set, "ReplicaFailure").cloned());
    let now = state.timestamp();
    state.change(ID, namespace(deployment), name(deployment), |deployment| {
        let observed = deployment["metadata"]["generation"].clone();
        let conditions = deployment["status"].get("conditions").cloned();
        let mut status = json!({"observedGeneration": observed});
        for (key, count) in [
            ("replicas", total),
            ("updatedReplicas", updated),
            ("readyReplicas", available),
            ("availableReplicas", available),
            ("unavailableReplicas", desired.max(total).saturating_sub(available)),
        ] {
            if count > 0 {
                status[key] = count.into();
            }
        }
        status["conditions"] = conditions.unwrap_or_else(|| json!([]));
        deployment["status"] = status;
        let (flag, reason, message) = if available >= least {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        };
        object::set_condition(deployment, &now, "Available", flag, reason, message);
        let (reason, end) = if is_done {
            ("NewReplicaSetAvailable", "has successfully progressed.")
        } else {
            ("ReplicaSetUpdated", "is progressing.")
        };
        let message = format!("ReplicaSet \"{set_name}\" {end}");
        object::set_condition(deployment, &now, "Progressing", "True", reason, &message);
        match failure {
            Some(failure) => {
                let (reason, message) = (text(&failure, "/reason"), text(&failure, "/message"));
                object::set_condition(deployment, &now, "ReplicaFailure", "True", reason, message);
            }
            None => object::remove_condition(deployment, "ReplicaFailure"),
        }
    });
}
