//! The resources that a node's controllers keep, as the Talos API shows them.
//!
//! No resource is stored: each kind is a function of the simulated nodes, and its resources are computed
//! for every request. Only their versions are stored, because watches report changes by them.

use std::time::Duration;

use serde_json::Value;

use super::talos_state::{Node, TalosState};
use crate::hypervisor::Hypervisor;

mod block;
mod cert_san;
mod cluster;
mod config;
mod control_plane;
mod definition;
mod endpoint;
mod etc_file;
mod etcd;
mod hardware;
mod kubelet;
mod kubelet_configuration;
mod kubernetes;
mod machine;
mod manifest;
mod network;
mod node_address;
mod node_label;
mod partition;
mod placement;
mod proto;
mod resolver;
mod route;
mod seen;
mod yaml;

pub(crate) use definition::Definition;
pub(crate) use kubernetes::COMPONENTS;
pub(crate) use machine::problems as diagnostics;
pub(crate) use partition::volume_labels;
pub(crate) use placement::missing_user_disk;
pub(crate) use seen::{Found, Seen};
pub(crate) use yaml::to_yaml;

/// Source of the resources of one kind. Its definition is in the table of `definition`.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Protobuf form of a spec, for clients that decode typed resources.
    pub(crate) proto: &'static [proto::Field],
    pub(crate) list: fn(&View<'_>) -> Vec<Item>,
}

/// Kind without resources: a node answers an empty list.
const KIND: Kind = Kind { name: "", proto: &[], list: |_| vec![] };

/// What resources are made of.
pub(crate) struct View<'a> {
    pub(crate) talos: &'a TalosState,
    pub(crate) node: &'a Node,
    /// Where the node's disks are.
    pub(crate) hypervisor: &'a dyn Hypervisor,
    /// Since 1970.
    pub(crate) now: Duration,
}

/// A resource without its version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) spec: Spec,
    /// Set where another part of the lab counts the versions.
    pub(crate) version: Option<u64>,
    /// Controller that wrote it, where several controllers write resources of one kind.
    pub(crate) owner: Option<&'static str>,
    pub(crate) annotations: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    Value(Value),
    /// Text that is sent as YAML without being a YAML string. It may hold keys.
    Text(String),
}

impl Item {
    fn new(id: impl Into<String>, spec: Value) -> Self {
        let (id, spec) = (id.into(), Spec::Value(spec));
        Self { id, spec, version: None, owner: None, annotations: &[] }
    }

    fn owned_by(self, controller: &'static str) -> Self {
        Self { owner: Some(controller), ..self }
    }
}

/// Every kind that has resources in the lab.
const KINDS: &[&[Kind]] = &[
    block::KINDS,
    cert_san::KINDS,
    cluster::KINDS,
    config::KINDS,
    control_plane::KINDS,
    definition::KINDS,
    endpoint::KINDS,
    etcd::KINDS,
    etc_file::KINDS,
    hardware::KINDS,
    kubelet::KINDS,
    kubernetes::KINDS,
    machine::KINDS,
    manifest::KINDS,
    network::KINDS,
    node_address::KINDS,
    node_label::KINDS,
    partition::KINDS,
    resolver::KINDS,
    route::KINDS,
];

/// The definition of that name, in whatever case it is written.
pub(crate) fn definition(node: &Node, name: &str) -> Option<&'static Definition> {
    definition::of(&node.version).find(|known| known.name.eq_ignore_ascii_case(name))
}

pub(crate) fn has_namespace(node: &Node, name: &str) -> bool {
    definition::namespaces(&node.version).any(|known| known == name)
}
