//! Saved plan: fingerprints of a plan that the user approved, and of the observed state that it was made for.
//!
//! The file is never executed. The plan is made again, and must be the same.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::action::Action;
use super::{Plan, show};
use crate::observed::{Observed, TalosSeen};
use crate::sha256::sha256_hex;

/// The fingerprints of a saved plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPlan {
    pub cluster: String,
    plan: String,
    observed: String,
}

/// Why a saved plan is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanError {
    #[error("the file is no saved plan of this version")]
    Unreadable,
    #[error("the plan was saved for the cluster {0}")]
    OtherCluster(String),
    #[error("the world has changed since the plan was saved")]
    WorldMoved,
    #[error("the inventory has changed since the plan was saved")]
    PlanMoved,
}

impl SavedPlan {
    pub fn of(plan: &Plan, observed: &Observed) -> Self {
        Self { cluster: plan.cluster.clone(), plan: of_plan(plan), observed: of_world(observed) }
    }

    /// The file. Everything in it other than the fingerprints is for display.
    pub fn to_json(&self, plan: &Plan) -> Value {
        json!({
            "format": 1,
            "cluster": self.cluster,
            "fingerprint": {"plan": self.plan, "world": self.observed},
            "plan": show::json(plan),
        })
    }

    pub fn parse(text: &str) -> Result<Self, SavedPlanError> {
        let value: Value = serde_json::from_str(text).map_err(|_| SavedPlanError::Unreadable)?;
        let field = |pointer: &str| {
            let text = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            text.ok_or(SavedPlanError::Unreadable)
        };
        if value.get("format") != Some(&json!(1)) {
            return Err(SavedPlanError::Unreadable);
        }
        Ok(Self {
            cluster: field("/cluster")?,
            plan: field("/fingerprint/plan")?,
            observed: field("/fingerprint/world")?,
        })
    }

    /// Whether this plan for this observed state is the saved one.
    pub fn check(&self, plan: &Plan, observed: &Observed) -> Result<(), SavedPlanError> {
        if self.cluster != plan.cluster {
            return Err(SavedPlanError::OtherCluster(self.cluster.clone()));
        }
        if self.observed != of_world(observed) {
            return Err(SavedPlanError::WorldMoved);
        }
        if self.plan == of_plan(plan) { Ok(()) } else { Err(SavedPlanError::PlanMoved) }
    }
}

/// Whether two plans have the same steps, whatever changes and findings they show.
pub fn has_same_steps(one: &Plan, other: &Plan) -> bool {
    of_text(format!("{:?}", one.steps), one) == of_text(format!("{:?}", other.steps), other)
}

fn of_plan(plan: &Plan) -> String {
    of_text(format!("{plan:?}"), plan)
}

/// Hash of a plan. `Debug` hides secrets, so their hashes are added: a changed key is a changed plan.
fn of_text(mut text: String, plan: &Plan) -> String {
    for step in &plan.steps {
        let secret = match &step.action {
            Action::ApplyConfig(apply) => &apply.config,
            Action::UploadCidata(upload) => &upload.user_data,
            _ => continue,
        };
        text.push_str(&sha256_hex(secret.expose().as_bytes()));
    }
    sha256_hex(text.as_bytes())
}

/// Hash of everything that plans depend on, without load and uptime of hosts.
fn of_world(observed: &Observed) -> String {
    let mut text = String::new();
    let pve = &observed.pve;
    let mut add = |line: std::fmt::Arguments<'_>| {
        text.write_fmt(line).expect("invariant: a String takes everything");
        text.push('\n');
    };
    for (vmid, seen) in &pve.vms {
        let options = match &seen.config {
            Ok(config) => config.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            Err(reason) => vec![reason.clone()],
        };
        add(format_args!("{vmid} {} {} {options:?}", seen.host, seen.is_running));
    }
    add(format_args!("{:?}", pve.ids));
    for (place, told) in &pve.contents {
        let volumes = told.iter().flatten().map(|one| (one.volid.to_string(), one.size));
        let mut volumes: Vec<_> = volumes.collect();
        volumes.sort_unstable();
        add(format_args!("{place:?} {volumes:?}"));
    }
    add(format_args!("{:?} {:?}", pve.permissions, pve.mappings));
    for (name, seen) in &observed.nodes {
        match seen {
            TalosSeen::OwnNode(found) => {
                let config =
                    found.config.as_ref().map(|config| sha256_hex(config.expose().as_bytes()));
                let (version, schematic) = (&found.version, &found.schematic);
                add(format_args!("{name} {version:?} {schematic:?} {config:?} {:?}", found.etcd));
            }
            TalosSeen::Nothing(_) => add(format_args!("{name} nothing")),
            other => add(format_args!("{name} {other:?}")),
        }
    }
    add(format_args!("{:?}", observed.addons));
    sha256_hex(text.as_bytes())
}
