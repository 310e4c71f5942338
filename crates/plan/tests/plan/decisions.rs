//! Trace events about the decisions of a plan.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::planning::{self, PlanOptions, Scope};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::changes::running;
use crate::observed_state::{carry_out, empty, settled};
use crate::support::{HEAD, HOME, desired, home, home_with, plan};

/// Keeps the subject and the message of every event.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields {
    subject: String,
    message: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "subject" => value.clone_into(&mut self.subject),
            "message" => value.clone_into(&mut self.message),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "talmox::plan" && *metadata.level() == Level::INFO
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(format!("{}: {}", fields.subject, fields.message));
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// The decisions of a plan, in the order in which they are made.
fn decisions(desired: &Desired, observed: &Observed, scope: &Scope) -> Vec<String> {
    let kept = Kept::default();
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    tracing::subscriber::with_default(kept.clone(), || {
        planning::plan_within(desired, observed, options, scope)
    });
    let kept = kept.0.lock().unwrap();
    kept.clone()
}

#[track_caller]
fn assert_has(decisions: &[String], expected: &str) {
    assert!(decisions.iter().any(|decision| decision == expected), "{expected}: {decisions:#?}");
}

#[test]
fn a_new_vm_has_its_place_and_a_resumed_creation_says_so() {
    let mut observed = empty();
    let scope = Scope::default();
    let first = decisions(&home(), &observed, &scope);
    let placed =
        "cp-1: placed: new VM 300 (vmid set in the inventory) on pve1 (host set in the inventory)";
    assert_has(&first, placed);
    assert!(first.iter().any(|text| text.starts_with("wk-1: placed: new VM ")), "{first:#?}");

    let steps = plan(&home(), &observed);
    let create = steps.steps.iter().position(|step| step.id.as_str() == "vm/cp-1/create");
    carry_out(&home(), &steps, &mut observed, create.unwrap() + 1);
    let resumed = decisions(&home(), &observed, &scope);
    let skipped = "cp-1: skipped: VM 300 exists already; its creation resumes after `create`";
    assert_has(&resumed, skipped);
    assert!(!resumed.contains(&placed.to_owned()), "{resumed:#?}");
}

#[test]
fn the_order_of_a_rollout_is_shown() {
    let larger = desired(&format!("{HEAD}machine: {{memory: 5G}}\n{HOME}"));
    let found = decisions(&larger, &running(&home()), &Scope::default());
    let order = found.iter().find(|text| text.starts_with("rollout: order: ")).unwrap();
    assert!(order.starts_with("rollout: order: wk-1, wk-2, cp-"), "{order}");
    assert!(order.ends_with("; workers down at the same time: at most 1"), "{order}");
}

#[test]
fn changes_that_are_left_have_the_words_of_the_plan() {
    let observed = running(&home());
    let settings = "ip: 10.0.0.21, memory: 8G, ignore: [{path: memory, reason: measured}]}";
    let accepted = home_with("ip: 10.0.0.21}", settings);
    let found = decisions(&accepted, &observed, &Scope::default());
    let reason = ": left: `ignore:` in the inventory accepts it (measured)";
    let is_accepted =
        |text: &&String| text.starts_with("vm wk-1 memory (") && text.ends_with(reason);
    assert_eq!(found.iter().filter(is_accepted).count(), 1, "{found:#?}");

    let removed = home_with("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    let found = decisions(&removed, &observed, &Scope::default());
    let left = "vm wk-2 (destroy): left: it loses data; --allow-removal=wk-2 allows it (";
    let lines = found.iter().filter(|text| text.starts_with(left)).count();
    assert_eq!(lines, 1, "a removed node has one line: {found:#?}");
}

#[test]
fn excluded_nodes_and_steps_are_shown() {
    let more = "  - {name: wk-3, ip: 10.0.0.23}\n  - {name: wk-4, ip: 10.0.0.24}\n";
    let grown = desired(&format!("{HEAD}{HOME}{more}"));
    let nodes = Some(BTreeSet::from(["wk-4".to_owned()]));
    let found = decisions(&grown, &settled(&home()), &Scope { nodes, ..Scope::default() });
    assert_has(&found, "wk-3: skipped: --node does not name it");
    assert_has(&found, "vm/wk-3/create: skipped: --node or --only excludes it");
    assert_has(&found, "vm wk-3 (create): left: --node or --only excludes it");
    assert!(!found.iter().any(|text| text.contains("vm/wk-4/create")), "{found:#?}");

    let large = desired(&format!("{HEAD}{HOME}  - {{name: wk-3, ip: 10.0.0.23, memory: 500G}}\n"));
    let found = decisions(&large, &settled(&home()), &Scope::default());
    let prevented = "an error about its node, or about all nodes that need it, prevents it";
    assert_has(&found, &format!("vm/wk-3/create: skipped: {prevented}"));
    assert_has(&found, "vm wk-3 (create): left: an error about this node prevents it");
}
