//! Templates for nodes that are clones: which of them are missing, and how they are made.

use std::collections::BTreeMap;

use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::Vm;
use talmox_pve::id::{NodeName, VmId};

use super::action::{Action, MakeTemplate};
use super::build::Options;
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::place::places;
use super::source::{self, template_doubts};
use super::steps::Steps;
use super::{Builder, Plan, image, preflight};
use crate::desired::{Desired, DesiredNode};
use crate::observe::{Pve, World};

/// A template that nodes on a host are cloned from, and that is not there.
#[derive(Clone, Debug)]
pub struct MissingTemplate<'a> {
    pub name: String,
    pub host: NodeName,
    /// Its number, where nodes name it by that, or where an earlier run has begun to make it.
    pub vmid: Option<VmId>,
    /// The first node that wants it. All others must be of the same Talos.
    pub(crate) node: &'a DesiredNode,
    /// One that is not.
    other: Option<&'a DesiredNode>,
}

/// The templates that the cluster needs and that are not there, in the order of its nodes.
pub fn missing_templates<'a>(desired: &'a Desired, pve: &'a Pve) -> Vec<MissingTemplate<'a>> {
    let mut missing: Vec<MissingTemplate<'a>> = vec![];
    let mut seen: BTreeMap<(&str, NodeName), usize> = BTreeMap::new();
    for placed in places(desired, pve).nodes {
        let (node, host) = (placed.node, placed.own.vm.node.clone());
        let Some(wanted) = node.template.as_deref() else { continue };
        if let Some(at) = seen.get(&(wanted, host.clone())) {
            let first = &mut missing[*at];
            if first.node.schematic != node.schematic {
                first.other.get_or_insert(node);
            }
            continue;
        }
        let is_it = |guest: &&Guest| is_named(guest, wanted) && guest.node == host;
        let mut guests = pve.resources.guests.iter().filter(is_it);
        if guests.clone().any(|guest| guest.template) {
            continue;
        }
        let begun = guests.next().map(|guest| guest.vmid);
        let number = wanted.parse().ok().and_then(|number| VmId::new(number).ok());
        let name = match number {
            Some(_) => usual_name(desired),
            None => wanted.to_owned(),
        };
        seen.insert((wanted, host.clone()), missing.len());
        missing.push(MissingTemplate { name, host, vmid: number.or(begun), node, other: None });
    }
    missing
}

/// A plan that makes them. `numbers` are free, one for each that has none.
pub fn templates(desired: &Desired, world: &World, numbers: &[VmId]) -> Plan {
    let mut builder = Builder {
        desired,
        world,
        options: Options { has_client_files: true, was_up: true },
        places: places(desired, &world.pve),
        changes: vec![],
        findings: vec![],
        steps: Steps::default(),
    };
    let mut numbers = numbers.iter().copied();
    for template in missing_templates(desired, &world.pve) {
        let Some(vmid) = template.vmid.or_else(|| numbers.next()) else {
            let message = "no number is free for it";
            let finding = Finding::error(&template.name, message).hint("name one with --vmid");
            builder.findings.push(finding);
            continue;
        };
        make(&mut builder, &template, vmid);
    }
    builder.findings.extend(template_doubts(desired, &world.pve));
    preflight::check_templates(&mut builder);
    Plan {
        cluster: desired.cluster.clone(),
        changes: builder.changes,
        findings: builder.findings,
        steps: builder.steps.in_order(),
    }
}

fn make(builder: &mut Builder<'_>, template: &MissingTemplate<'_>, vmid: VmId) {
    let MissingTemplate { name, host, node, .. } = template;
    let Some(image) = &node.template_image else { return };
    if let Some(other) = template.other {
        let message = format!("{} and {} want it with different images", node.name, other.name);
        let hint = "give the nodes the same `image:`, or templates of different names";
        builder.findings.push(Finding::error(name, message).hint(hint));
        return;
    }
    let (volume, fetched) = image::fetch(builder, image, host);
    let Some(mark) = source::mark(builder.desired, node) else { return };
    let options = node.vm.template(name, &volume, &mark.description());
    let fields = vec![
        FieldChange::set("vmid", vmid),
        FieldChange::set("host", host),
        FieldChange::set("template", name),
    ];
    builder.changes.push(Change::planned(Object::Vm(name.clone()), Class::Create, fields));
    let make = MakeTemplate {
        vm: Vm::new(host, vmid),
        name: name.clone(),
        pool: node.pool.clone(),
        options,
        deadline: builder.desired.timeouts.image,
    };
    let id = format!("template/{host}/{name}");
    builder.steps.add(id, None, [fetched], Action::MakeTemplate(make));
}

fn is_named(guest: &Guest, wanted: &str) -> bool {
    guest.is_vm && (guest.name.as_deref() == Some(wanted) || guest.vmid.to_string() == wanted)
}

/// What templates are called.
fn usual_name(desired: &Desired) -> String {
    format!("talos-{}-base", desired.talos_version.as_deref().unwrap_or("unknown"))
}
