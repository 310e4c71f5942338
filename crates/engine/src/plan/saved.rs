//! A plan on disk: what was agreed to, and a fingerprint of the world it was made for.
//!
//! Nothing is carried out from the file. The plan is made again, and must come out the same.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::action::Action;
use super::{Plan, show};
use crate::desired::hash;
use crate::observe::{TalosSeen, World};

/// The fingerprints of a saved plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPlan {
    pub cluster: String,
    plan: String,
    world: String,
}

/// Why a saved plan does not hold any more.
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
    pub fn of(plan: &Plan, world: &World) -> Self {
        Self { cluster: plan.cluster.clone(), plan: of_plan(plan), world: of_world(world) }
    }

    /// The file. What stands in it beside the fingerprints is for people.
    pub fn to_json(&self, plan: &Plan) -> Value {
        json!({
            "format": 1,
            "cluster": self.cluster,
            "fingerprint": {"plan": self.plan, "world": self.world},
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
            world: field("/fingerprint/world")?,
        })
    }

    /// Whether this plan, made of this world, is the one that was saved.
    pub fn check(&self, plan: &Plan, world: &World) -> Result<(), SavedPlanError> {
        if self.cluster != plan.cluster {
            return Err(SavedPlanError::OtherCluster(self.cluster.clone()));
        }
        if self.world != of_world(world) {
            return Err(SavedPlanError::WorldMoved);
        }
        if self.plan == of_plan(plan) { Ok(()) } else { Err(SavedPlanError::PlanMoved) }
    }
}

/// Whether two plans do the same, however they describe it.
pub fn has_same_steps(one: &Plan, other: &Plan) -> bool {
    of_text(format!("{:?}", one.steps), one) == of_text(format!("{:?}", other.steps), other)
}

fn of_plan(plan: &Plan) -> String {
    of_text(format!("{plan:?}"), plan)
}

/// Debug hides secrets, so they are added: a changed key is a changed plan.
fn of_text(mut text: String, plan: &Plan) -> String {
    for step in &plan.steps {
        let secret = match &step.action {
            Action::ApplyConfig(apply) => &apply.config,
            Action::UploadCidata(upload) => &upload.user_data,
            _ => continue,
        };
        text.push_str(&hash(secret.expose().as_bytes()));
    }
    hash(text.as_bytes())
}

/// All that plans depend on. How busy hosts are, and how long things have been up, does not count.
fn of_world(world: &World) -> String {
    let mut text = String::new();
    let pve = &world.pve;
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
    for (name, seen) in &world.nodes {
        match seen {
            TalosSeen::Ours(found) => {
                let config = found.config.as_ref().map(|config| hash(config.expose().as_bytes()));
                let (version, schematic) = (&found.version, &found.schematic);
                add(format_args!("{name} {version:?} {schematic:?} {config:?} {:?}", found.etcd));
            }
            TalosSeen::Nothing(_) => add(format_args!("{name} nothing")),
            other => add(format_args!("{name} {other:?}")),
        }
    }
    add(format_args!("{:?}", world.addons));
    hash(text.as_bytes())
}
