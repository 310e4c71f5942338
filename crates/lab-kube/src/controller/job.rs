//! Job controller: runs pods until enough of them have succeeded.

use serde_json::{Value, json};

use super::{event, pod};
use crate::object::{self, name, namespace, number, text};
use crate::store::State;

const ID: &str = "jobs.batch";

pub(super) fn pass(state: &mut State) {
    for job in state.all(ID) {
        let has_ended =
            object::has_condition(&job, "Complete") || object::has_condition(&job, "Failed");
        if !object::is_being_deleted(&job) && !has_ended {
            reconcile(state, &job);
        }
    }
}

fn reconcile(state: &mut State, job: &Value) {
    let uid = object::uid(job).to_owned();
    let pods = pod::owned(state, job);
    let ended =
        |phase: &str| pods.iter().filter(|pod| text(pod, "/status/phase") == phase).count() as u64;
    let (succeeded, failed) = (ended("Succeeded"), ended("Failed"));
    let active = pods.iter().filter(|pod| pod::is_active(pod)).count() as u64;
    let desired = number(job, "/spec/completions").unwrap_or(1);
    let at_once = number(job, "/spec/parallelism").unwrap_or(1);
    let is_suspended = object::flag(job, "/spec/suspend");
    let more = desired.saturating_sub(succeeded).min(at_once).saturating_sub(active);
    let mut made = 0;
    for _ in 0..(if is_suspended { 0 } else { more }) {
        let metadata = json!({
            "generateName": format!("{}-", name(job)),
            "labels": {
                "batch.kubernetes.io/job-name": name(job),
                "batch.kubernetes.io/controller-uid": uid,
                "job-name": name(job),
                "controller-uid": uid,
            },
        });
        match state.create_inside("pods", pod::from_template(job, &metadata)) {
            Ok(_) => made += 1,
            Err(failure) => event::record_rejection(state, job, "job-controller", &failure),
        }
    }
    let now = state.timestamp();
    state.change(ID, namespace(job), name(job), |job| {
        let spec = object::entry(job, "spec");
        spec.entry("selector")
            .or_insert_with(|| json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
        let status = object::entry(job, "status");
        status.entry("startTime").or_insert_with(|| now.as_str().into());
        status.insert("active".to_owned(), (active + made).into());
        status.insert("succeeded".to_owned(), succeeded.into());
        status.insert("failed".to_owned(), failed.into());
        if succeeded >= desired {
            status.insert("completionTime".to_owned(), now.as_str().into());
            status.insert("active".to_owned(), 0.into());
            let message = "Reached expected number of succeeded pods";
            for kind in ["SuccessCriteriaMet", "Complete"] {
                object::set_condition(job, &now, kind, "True", "CompletionsReached", message);
            }
        }
    });
}
