//! A shared address that Talos does not hold: its holder, and the content of client files until the address answers.

use talmox_plan::desired::{Addon, AddonSource, Desired};
use talmox_plan::manifest::read_manifests;
use talmox_plan::observed::{
    AddonRead, AddonSeen, KubernetesSeen, Observed, PortSeen, Registered, VipSeen,
};
use talmox_plan::plan::{Action, Meanwhile, Plan, StepId, VipBringer};
use talmox_plan::planning::{PlanOptions, leads_around};

use crate::observed_state::{empty, settled};
use crate::support::{errors, home, home_with, ids, plan, warnings};

const HOLDER: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: vip}\n\
    spec: {template: {spec: {containers: [{name: a, image: 'ghcr.io/kube-vip/kube-vip:v1'}]}}}\n";
const NO_HOLDER: &str =
    "network.vip: no component holds 10.0.0.20: it is left to kube-vip, which no add-on brings";

fn left() -> Desired {
    home_with("vip: 10.0.0.20", "vip: 10.0.0.20, vip_by: kube-vip")
}

/// A running cluster whose shared address does not answer.
fn silent(desired: &Desired) -> Observed {
    let mut observed = settled(desired);
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed.vip = VipSeen::Silent;
    observed
}

/// The cluster with an add-on that is applied and does not differ from its manifests.
fn with_addon(
    mut desired: Desired,
    mut observed: Observed,
    read: AddonRead,
) -> (Desired, Observed) {
    desired.addons.push(Addon::new("edge", AddonSource::Texts(vec![])));
    observed.addons.read.insert("edge".to_owned(), read);
    let seen = AddonSeen { is_noted: true, changes: vec![], refusals: vec![] };
    observed.addons.known.insert("edge".to_owned(), seen);
    (desired, observed)
}

fn objects(text: &str) -> AddonRead {
    AddonRead::Objects(read_manifests("edge.yaml", text).unwrap())
}

fn bringer(plan: &Plan) -> Option<VipBringer> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::AwaitVip(vip) => Some(vip.by.clone()),
        _ => None,
    })
}

/// The behaviour of each step that writes client files while the shared address does not answer.
fn writes(plan: &Plan) -> Vec<(&str, Meanwhile)> {
    let writes = plan.steps.iter().filter_map(|step| match &step.action {
        Action::WriteClientFiles(files) => {
            Some((step.id.as_str(), files.shared.clone().unwrap().meanwhile))
        }
        _ => None,
    });
    writes.collect()
}

fn after<'p>(plan: &'p Plan, step: &str) -> Vec<&'p str> {
    let step = plan.steps.iter().find(|one| one.id.as_str() == step).unwrap();
    step.after.iter().map(StepId::as_str).collect()
}

#[test]
fn a_shared_address_must_be_free_with_any_holder() {
    let mut observed = empty();
    let who = "the Kubernetes API of another cluster".to_owned();
    observed.vip = VipSeen::Answers(PortSeen::Other(who));
    let reported = errors(&plan(&left(), &observed));
    assert_eq!(reported, errors(&plan(&home(), &observed)));
    assert_eq!(reported.len(), 1, "{reported:?}");
}

#[test]
fn the_shared_address_is_checked_after_the_add_ons() {
    let (desired, mut observed) = with_addon(left(), empty(), objects(HOLDER));
    observed.addons.known.clear();
    let plan = plan(&desired, &observed);
    assert_eq!(bringer(&plan), Some(VipBringer::Addon("edge".to_owned())));
    assert_eq!(after(&plan, "vip"), ["addon/edge", "cluster/health"]);
    assert_eq!(after(&plan, "vip/kubeconfig"), ["kubeconfig", "vip"]);
    let expected = [("kubeconfig", Meanwhile::Around), ("vip/kubeconfig", Meanwhile::Leave)];
    assert_eq!(writes(&plan), expected);
    assert_eq!(warnings(&plan), Vec::<String>::new());
}

#[test]
fn a_shared_address_without_a_holder_is_reported_and_not_waited_for() {
    let desired = left();
    let fresh = plan(&desired, &empty());
    assert_eq!(
        (bringer(&fresh), warnings(&fresh)),
        (Some(VipBringer::Nobody), vec![NO_HOLDER.into()])
    );
    let observed = silent(&desired);
    assert!(leads_around(&desired, &observed) && !leads_around(&home(), &observed));
    let later = plan(&desired, &observed);
    assert_eq!((ids(&later), warnings(&later)), (vec![], vec![NO_HOLDER.into()]));
    let there = Observed { vip: VipSeen::Answers(PortSeen::ThisCluster), ..observed };
    assert!(!leads_around(&desired, &there));
    assert!(plan(&desired, &there).is_empty() && plan(&desired, &there).findings.is_empty());
    // A user installed a holder by hand, and kubeconfig still contains the address of a control plane.
    let options = PlanOptions { has_client_files: false, was_up: true, was_bootstrapped: false };
    let after = talmox_plan::planning::plan(&desired, &there, options);
    assert_eq!(writes(&after), [("kubeconfig", Meanwhile::Await(None))]);
    assert_eq!(ids(&after), ["kubeconfig"]);
}

#[test]
fn a_shared_address_is_waited_for_if_an_add_on_may_hold_it() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let chart = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a}\n\
        spec: {chart: kube-vip}\n";
    let unread = AddonRead::Unreachable("no route".to_owned());
    for (read, expected) in [
        (objects(map), None),
        (objects(HOLDER), Some(VipBringer::Addon("edge".to_owned()))),
        (objects(chart), Some(VipBringer::Perhaps)),
        (unread, Some(VipBringer::Perhaps)),
    ] {
        let (desired, observed) = with_addon(left(), silent(&left()), read);
        let plan = plan(&desired, &observed);
        assert_eq!(bringer(&plan), expected);
        let steps: &[&str] = if expected.is_some() { &["vip", "vip/kubeconfig"] } else { &[] };
        assert_eq!(ids(&plan), steps);
    }
}
