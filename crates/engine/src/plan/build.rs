use super::action::Action;
use super::change::{Change, Finding, Severity};
use super::place::{Places, State, places};
use super::steps::Steps;
use super::{
    Plan, addon, preflight, removed, shared, split, standing, stranger, talos, unread, vm,
};
use crate::desired::Desired;
use crate::observe::World;

/// What else a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether kubeconfig and talosconfig are where they belong, and lead to the cluster.
    pub has_client_files: bool,
    /// Whether the cluster was up once, as far as its files tell: also by ones that have to be written anew.
    pub was_up: bool,
}

/// A plan in the making.
pub(super) struct Builder<'a> {
    pub(super) desired: &'a Desired,
    pub(super) world: &'a World,
    pub(super) options: Options,
    pub(super) places: Places<'a>,
    pub(super) changes: Vec<Change>,
    pub(super) findings: Vec<Finding>,
    pub(super) steps: Steps,
}

/// What is to be done so that the world becomes what is wanted.
pub fn plan(desired: &Desired, world: &World, options: Options) -> Plan {
    let mut places = places(desired, &world.pve);
    let mut findings = std::mem::take(&mut places.findings);
    findings.append(&mut places.troubles);
    findings.extend(shared::refuse(desired, &places));
    // What stands in the way at a number is an error, and among the findings already.
    let absent = places.nodes.iter().filter(|placed| matches!(placed.state, State::Absent));
    let absent = absent.map(|placed| placed.node);
    findings.extend(stranger::warnings(desired, &world.pve, absent));
    let mut builder = Builder {
        desired,
        world,
        options,
        places,
        changes: vec![],
        findings,
        steps: Steps::default(),
    };
    unread::block(&mut builder);
    let nodes = builder.places.nodes.clone();
    let vms = nodes
        .iter()
        .map(|placed| (placed.node.name.clone(), vm::plan(&mut builder, placed)))
        .collect();
    talos::plan(&mut builder, &vms);
    split::check(&mut builder);
    removed::plan(&mut builder);
    addon::left(&mut builder);
    addon::check(&mut builder);
    preflight::check(&mut builder);
    standing::check(&mut builder);
    builder.changes.sort_by(|a, b| a.object.cmp(&b.object));
    Finding::sort(&mut builder.findings);
    Plan {
        cluster: desired.cluster.clone(),
        changes: builder.changes,
        findings: builder.findings,
        steps: builder.steps.in_order(),
    }
}

impl Plan {
    /// Whether everything is as it should be.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.steps.is_empty()
    }

    /// Why it cannot be carried out.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The nodes whose VMs the run may reset, and how often. All of them are VMs that the run creates.
    pub fn may_reset(&self) -> Vec<(&str, u32)> {
        let resets = self.steps.iter().filter_map(|step| match &step.action {
            Action::ApplyConfig(apply) if apply.resets > 0 => {
                Some((apply.node.name.as_str(), apply.resets))
            }
            _ => None,
        });
        resets.collect()
    }

    /// Changes that the inventory asks for and no step makes.
    pub fn open_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_planned)
    }
}
