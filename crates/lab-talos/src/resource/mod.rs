//! COSI resources of a node, as the Talos API shows them.
//!
//! No resource is stored. For every request, the resources of a type are computed from the simulated nodes. Only the versions
//! of resources are stored, because watches report changes by version.

use std::time::Duration;

use serde_json::Value;

use super::talos_state::{Node, TalosState};

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
mod network_status;
mod node_address;
mod node_label;
mod partition;
mod placement;
mod proto;
mod resolver;
mod resource_version;
mod route;
mod yaml;

pub(crate) use definition::Definition;
pub(crate) use kubernetes::COMPONENTS;
pub(crate) use machine::problems as diagnostics;
pub(crate) use partition::volume_labels;
pub(crate) use placement::missing_user_disk;
pub(crate) use resource_version::{ResourceVersions, VersionedResource};
pub(crate) use yaml::to_yaml;

/// Source of the resources of one type. The definition of the type is in the table of `definition`.
pub(crate) struct ResourceSource {
    pub(crate) name: &'static str,
    /// Protobuf fields of a spec, for clients that decode typed resources.
    pub(crate) proto: &'static [proto::Field],
    pub(crate) list: fn(&ResourceContext<'_>) -> Vec<Item>,
}

/// Source without resources. A node answers with an empty list.
const NO_RESOURCES: ResourceSource = ResourceSource { name: "", proto: &[], list: |_| vec![] };

/// Input from which resources are computed.
pub(crate) struct ResourceContext<'a> {
    pub(crate) talos: &'a TalosState,
    pub(crate) node: &'a Node,
    /// Current lab time since 1970.
    pub(crate) now: Duration,
}

/// Resource without its version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) spec: Spec,
    /// Version of the resource, if another part of the lab counts it.
    pub(crate) version: Option<u64>,
    /// Controller that wrote the resource, if several controllers write this type.
    pub(crate) owner: Option<&'static str>,
    pub(crate) annotations: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    Value(Value),
    /// Text that is sent as YAML, but not as a YAML string. It may contain keys.
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

/// Sources of all types that have resources in the lab.
const ALL_SOURCES: &[&[ResourceSource]] = &[
    block::SOURCES,
    cert_san::SOURCES,
    cluster::SOURCES,
    config::SOURCES,
    control_plane::SOURCES,
    definition::SOURCES,
    endpoint::SOURCES,
    etcd::SOURCES,
    etc_file::SOURCES,
    hardware::SOURCES,
    kubelet::SOURCES,
    kubernetes::SOURCES,
    machine::SOURCES,
    manifest::SOURCES,
    network::SOURCES,
    network_status::SOURCES,
    node_address::SOURCES,
    node_label::SOURCES,
    partition::SOURCES,
    resolver::SOURCES,
    route::SOURCES,
];

/// Definition with this name, ignoring case.
pub(crate) fn definition(node: &Node, name: &str) -> Option<&'static Definition> {
    definition::of(&node.version).find(|known| known.name.eq_ignore_ascii_case(name))
}

pub(crate) fn has_namespace(node: &Node, name: &str) -> bool {
    definition::namespaces(&node.version).any(|known| known == name)
}
