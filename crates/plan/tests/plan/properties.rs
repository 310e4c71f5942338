//! Properties that hold for every plan.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::plan::{SavedPlan, SavedPlanError, show};

use crate::observed_state::{carry_out, empty, template};
use crate::support::{HEAD, desired, home, home_with, plan, single};

/// Clusters with different boot ways and operating systems, each with the observed state that it starts from.
fn clusters() -> Vec<(Desired, Observed)> {
    let mut with_template = empty();
    template(&mut with_template, 9000, "talos-v1.11.2-base");
    let ubuntu = format!(
        "{HEAD}machine: {{os: ubuntu, image: {{url: 'https://example.org/noble.img'}}}}\n\
         controlplane: [{{name: u-1, ip: 10.0.0.31}}]\n"
    );
    vec![
        (home(), empty()),
        (single("boot: cidata"), empty()),
        (single("boot: meta"), empty()),
        (single("boot: dhcp"), empty()),
        (single("boot: template, template: talos-v1.11.2-base, disk: 20G"), with_template),
        (desired(&ubuntu), empty()),
        (
            single(
                "tpm: true, ssd: true, discard: true, disks: [{size: 5}], nics: [{bridge: vmbr1}]",
            ),
            empty(),
        ),
    ]
}

#[test]
fn an_executed_plan_leaves_nothing_to_do() {
    for (desired, mut observed) in clusters() {
        let first = plan(&desired, &observed);
        assert_eq!(first.errors().count(), 0, "{:#?}", first.findings);
        carry_out(&desired, &first, &mut observed, usize::MAX);
        let second = plan(&desired, &observed);
        assert!(second.is_empty(), "{}\n{}", show::text(&second), show::graph(&second));
    }
}

#[test]
fn after_an_interruption_only_the_remaining_steps_are_planned() {
    for (desired, observed) in clusters() {
        let whole = plan(&desired, &observed);
        let mut end = observed.clone();
        carry_out(&desired, &whole, &mut end, usize::MAX);
        for count in 0..whole.steps.len() {
            let mut cut = observed.clone();
            carry_out(&desired, &whole, &mut cut, count);
            let rest = plan(&desired, &cut);
            let last = count.checked_sub(1).map(|at| whole.steps[at].id.as_str());
            assert_eq!(rest.errors().count(), 0, "after {last:?}: {:#?}", rest.findings);
            assert_eq!(rest.open_changes().count(), 0, "after {last:?}: {}", show::text(&rest));
            carry_out(&desired, &rest, &mut cut, usize::MAX);
            assert!(plan(&desired, &cut).is_empty(), "after {last:?}");
            let vms = |observed: &Observed| {
                let vms = observed.pve.vms.iter();
                let all = vms.map(|(vmid, seen)| (*vmid, seen.host.clone(), seen.config.clone()));
                all.collect::<Vec<_>>()
            };
            assert_eq!(vms(&cut), vms(&end), "after {last:?}");
        }
    }
}

#[test]
fn planning_is_deterministic() {
    for (desired, observed) in clusters() {
        let bytes = || {
            let plan = plan(&desired, &observed);
            let parts = [
                show::text(&plan),
                show::json(&plan).to_string(),
                show::graph(&plan),
                show::dot(&plan),
                show::svg(&plan),
                format!("{plan:?}"),
            ];
            parts.join("\n")
        };
        let first = bytes();
        assert!((0..50).all(|_| bytes() == first));
    }
}

#[test]
fn steps_are_ordered_after_their_dependencies() {
    for (desired, observed) in clusters() {
        let mut done = BTreeSet::new();
        for step in plan(&desired, &observed).steps {
            assert!(step.after.iter().all(|id| done.contains(id)), "{}", step.id);
            assert!(!step.action.deadline().is_zero(), "{}", step.id);
            assert!(done.insert(step.id));
        }
    }
}

#[test]
fn no_secret_is_shown() {
    for (desired, observed) in clusters() {
        let plan = plan(&desired, &observed);
        let shown = format!("{} {} {plan:?}", show::text(&plan), show::json(&plan));
        for line in desired.nodes.iter().flat_map(|node| node.config.expose().lines()) {
            let is_key =
                ["key:", "token:", "secret:"].iter().any(|key| line.trim().starts_with(key));
            let secret = line.split_once(": ").map(|(_, value)| value.trim()).unwrap_or_default();
            if is_key && secret.len() > 20 {
                assert!(!shown.contains(secret), "{line}");
            }
        }
    }
}

#[test]
fn a_saved_plan_is_valid_until_the_observed_state_changes() {
    let (desired, observed) = (home(), empty());
    let made = plan(&desired, &observed);
    let file = SavedPlan::of(&made, &observed).to_json();
    let saved = SavedPlan::parse(&file).unwrap();
    assert_eq!(saved.check(&plan(&desired, &observed), &observed), Ok(()));

    let mut busier = observed.clone();
    busier.pve.resources.hosts[0].cpu = Some(0.9);
    assert_eq!(saved.check(&plan(&desired, &busier), &busier), Ok(()));

    let mut moved = observed.clone();
    carry_out(&desired, &made, &mut moved, 4);
    assert_eq!(saved.check(&plan(&desired, &moved), &moved), Err(SavedPlanError::ObservedChanged));

    let other = home_with("10.0.0.21", "10.0.0.29");
    assert_eq!(
        saved.check(&plan(&other, &observed), &observed),
        Err(SavedPlanError::InventoryChanged)
    );
    assert_eq!(SavedPlan::parse("{}"), Err(SavedPlanError::Unreadable));
}
