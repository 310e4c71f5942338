//! Nodes of a running cluster with their VMs, and the inventory settings that describe them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use talmox_model::Severity;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_plan::desired::{Desired, Inputs, Login, Phase};
use talmox_plan::ownership::{ClusterMark, Marker, SmbiosUuid};
use talmox_talos_api::{Credentials, Settings};
use talmox_talos_config::secrets::Bundle;

use super::AdoptArgs;
use super::inventory_text::{self, AdoptedNode, ClusterFacts};
use super::running_node::{self, RunningNode};
use super::vm_settings::{self, FoundVm, quoted};
use super::{config_patch, etcd_member};
use crate::command::secrets::import::bundle_in_config;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::secrets::read_input;

/// Node that is not adopted, or difference that the inventory does not express, with the reason.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) node: String,
    pub(super) reason: String,
}

/// Nodes that the inventory describes, and the nodes and differences that are left.
pub(super) struct Adoption {
    pub(super) facts: ClusterFacts,
    pub(super) bundle: Bundle,
    pub(super) nodes: Vec<AdoptedNode>,
    pub(super) left: Vec<Left>,
}

/// Reads the nodes of a cluster, and finds the VM of each node.
pub(super) async fn read_cluster(
    args: &AdoptArgs,
    settings: &Settings,
    vms: &[FoundVm],
) -> Result<Adoption, CommandError> {
    let talosconfig = read_input(&args.talosconfig)?;
    let context = args.context.as_deref();
    let credentials = Credentials::from_talosconfig(&talosconfig, context).map_err(|error| {
        CommandError::failed(
            CommandCode::FileUnreadable,
            format!("cannot use {}", args.talosconfig.display()),
        )
        .because(error)
        .hint("pass a talosconfig with the role os:admin, and its context with --context")
    })?;
    let found = running_node::read(&talosconfig, context, &credentials, settings).await;
    let failed = found.failures.iter().map(|(address, reason)| Left {
        node: address.clone(),
        reason: format!("it does not answer as a node of this cluster: {reason}"),
    });
    let mut left: Vec<Left> = failed.collect();
    let Some(first) = found.nodes.iter().find(|node| node.is_control_plane()) else {
        let why = left.first().map(|left| format!(": {}: {}", left.node, left.reason));
        return Err(CommandError::failed(
            CommandCode::AdoptImpossible,
            format!("no control plane could be read{}", why.unwrap_or_default()),
        )
        .hint("check that the endpoints of the talosconfig are reachable from here"));
    };
    let bundle = bundle_in_config(&first.config)?;
    let facts = facts(args, first);
    let mut nodes = vec![];
    for node in &found.nodes {
        match adopted(node, vms, &facts, &bundle) {
            Ok(adopted) => nodes.push(adopted),
            Err(reason) => left.push(Left { node: node.name.clone(), reason }),
        }
    }
    if !nodes.iter().any(|adopted| adopted.node.is_control_plane()) {
        let why: Vec<String> =
            left.iter().map(|left| format!("{}: {}", left.node, left.reason)).collect();
        return Err(CommandError::failed(
            CommandCode::AdoptImpossible,
            format!("no control plane can be adopted: {}", why.join("; ")),
        )
        .hint(
            "check that the token may read the VMs (VM.Audit), and that they run on this Proxmox",
        ));
    }
    left.extend(etcd_member::left(&found.nodes, &nodes, &left));
    Ok(Adoption { facts, bundle, nodes, left })
}

fn facts(args: &AdoptArgs, first: &RunningNode) -> ClusterFacts {
    let values = first.values();
    let name = values.get("cluster.clusterName").cloned().unwrap_or_else(|| "home".to_owned());
    let mut proxmox = vec![("endpoint", quoted(&args.endpoint.to_string()))];
    proxmox.extend(args.fingerprint.as_ref().map(|text| ("fingerprint", quoted(text))));
    proxmox.push(("token", "{secret: proxmox.token}".to_owned()));
    ClusterFacts { name, talos_version: first.version.clone(), proxmox, values }
}

/// Node with its VM. The error is the reason why the inventory cannot describe the node.
fn adopted(
    node: &RunningNode,
    vms: &[FoundVm],
    facts: &ClusterFacts,
    bundle: &Bundle,
) -> Result<AdoptedNode, String> {
    let own: Vec<&FoundVm> = vms.iter().filter(|vm| vm.is_of(node)).collect();
    let vm = match own.as_slice() {
        [vm] => *vm,
        [] => return Err("no running VM has its UUID or a MAC address of it".to_owned()),
        [one, other, ..] => {
            let (one, other) = (one.guest.vmid, other.guest.vmid);
            return Err(format!(
                "VM {one} and VM {other} both have its UUID or a MAC address of it"
            ));
        }
    };
    let uuid = vm.uuid().ok_or("its VM has no SMBIOS UUID (`smbios1`)")?;
    if let Some(marker) = Marker::find(vm.config.description())
        && (marker.cluster != ClusterMark::of(&bundle.cluster.id) || marker.node != node.name)
    {
        return Err(format!("its VM has the marker of the node {} of a cluster", marker.node));
    }
    if node.version != facts.talos_version {
        let version = &facts.talos_version;
        return Err(format!(
            "it runs Talos {}, and the first control plane {version}",
            node.version
        ));
    }
    let derived = SmbiosUuid::of(&bundle.cluster.id, &node.name).to_string();
    Ok(AdoptedNode {
        node: node.clone(),
        vm: vm.clone(),
        settings: vm_settings::settings(vm)?,
        uuid: Some(uuid).filter(|uuid| *uuid != derived),
        is_by_schematic: false,
        patches: vec![],
    })
}

/// Decides for each node whether the inventory names the image by its schematic, and finds the patches of the machine
/// config.
pub(super) fn describe_configs(adoption: &mut Adoption, login: &Login) -> Result<(), CommandError> {
    let Adoption { facts, bundle, nodes, left } = adoption;
    let desired = derive(&inventory_text::inventory(facts, nodes), bundle, login)?;
    for adopted in nodes.iter_mut() {
        let wanted = desired.node(&adopted.node.name).and_then(|node| node.schematic.clone());
        adopted.is_by_schematic =
            adopted.node.schematic.is_some() && adopted.node.schematic != wanted;
    }
    let desired = derive(&inventory_text::inventory(facts, nodes), bundle, login)?;
    for adopted in nodes.iter_mut() {
        let Some(wanted) = desired.node(&adopted.node.name) else { continue };
        let (real, release) = (&adopted.node.config, adopted.node.release());
        let patch = config_patch::between(&wanted.config, real, release);
        let name = &adopted.node.name;
        left.extend(patch.left.into_iter().map(|reason| Left { node: name.clone(), reason }));
        adopted.patches = patch.texts;
    }
    Ok(())
}

/// Desired state of an inventory text that has not been written to a file yet.
pub(super) fn derive(text: &str, bundle: &Bundle, login: &Login) -> Result<Desired, CommandError> {
    let path = PathBuf::from("cluster.yaml");
    let files = ClusterFiles {
        default_name: "adopted".to_owned(),
        cluster: Some(File { path, content: Ok(text.as_bytes().to_vec()) }),
        ..ClusterFiles::default()
    };
    let failed = |why: String| {
        CommandError::failed(
            CommandCode::AdoptImpossible,
            format!("the inventory cannot describe the cluster: {why}"),
        )
        .hint("nothing was written; a cluster that talmox cannot describe stays with its own tool")
    };
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    let mut errors = inventory.diagnostics.iter().filter(|one| one.severity == Severity::Error);
    if let Some(error) = errors.next() {
        return Err(failed(error.message.clone()));
    }
    let Some(cluster) = inventory.clusters.first() else {
        return Err(failed("it has no nodes".to_owned()));
    };
    let (secrets, files) = (BTreeMap::new(), BTreeMap::new());
    let inputs = Inputs { cluster, bundle, secrets: &secrets, files: &files, phase: Phase::Final };
    Desired::of(&inputs, &BTreeMap::new(), login.clone()).map_err(|error| failed(error.to_string()))
}
