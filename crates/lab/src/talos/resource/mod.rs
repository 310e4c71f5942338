//! The resources that a node's controllers keep, as the Talos API shows them.
//!
//! Nothing is kept here: each kind is a function of the land, and its resources are computed when
//! somebody looks. Only their versions are remembered, because those tell what changed.

use std::time::Duration;

use serde_json::Value;

use super::land::{Land, Node};
use super::version::Version;
use crate::pve::Site;

mod block;
mod cluster;
mod config;
mod definition;
mod etcd;
mod hardware;
mod kubernetes;
mod machine;
mod manifest;
mod network;
mod partition;
mod placement;
mod proto;
mod route;
mod seen;
mod yaml;

pub(crate) use kubernetes::COMPONENTS;
pub(crate) use machine::problems as diagnostics;
pub(crate) use seen::{Found, Seen};
pub(crate) use yaml::to_yaml;

/// A kind of resources.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) namespace: &'static str,
    /// Beside those that follow from the name.
    pub(crate) aliases: &'static [&'static str],
    /// What a table shows of each: the title, and where it stands.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    /// The minor release of Talos 1 since which only administrators may see it.
    pub(crate) sensitive_since: Option<u32>,
    /// The minor release of Talos 1 that brought it.
    pub(crate) since: u32,
    /// How it is written in binary, for clients that want it so.
    pub(crate) proto: &'static [proto::Field],
    pub(crate) list: fn(&View<'_>) -> Vec<Item>,
}

impl Kind {
    pub(crate) fn to_proto(&self, spec: &Value) -> Vec<u8> {
        proto::encode(spec, self.proto)
    }

    /// Whether nodes of this release show it to administrators alone.
    pub(crate) fn is_sensitive(&self, version: &Version) -> bool {
        self.sensitive_since.is_some_and(|minor| version.is_at_least(minor))
    }

    /// The controller that keeps resources of this kind, by a name of its own.
    pub(crate) fn owner(&self) -> String {
        let (plural, domain) = self.name.split_once('.').unwrap_or((self.name, ""));
        let area = domain.split('.').next().unwrap_or_default();
        format!("{area}.{}Controller", plural.trim_end_matches('s'))
    }
}

/// A kind as most are.
const KIND: Kind = Kind {
    name: "",
    namespace: "runtime",
    aliases: &[],
    columns: &[],
    sensitive_since: None,
    since: 0,
    proto: &[],
    list: |_| vec![],
};

/// What resources are made of.
pub(crate) struct View<'a> {
    pub(crate) land: &'a Land,
    pub(crate) node: &'a Node,
    /// Where the node's disks are.
    pub(crate) site: &'a Site,
    /// Since 1970.
    pub(crate) now: Duration,
}

/// A resource without its version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) spec: Spec,
    /// Where others count the versions.
    pub(crate) version: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    Value(Value),
    /// Written as it is in both forms. It may hold keys.
    Text(String),
}

impl Item {
    fn new(id: impl Into<String>, spec: Value) -> Self {
        Self { id: id.into(), spec: Spec::Value(spec), version: None }
    }
}

/// Every kind that nodes know.
const KINDS: &[&[Kind]] = &[
    block::KINDS,
    cluster::KINDS,
    config::KINDS,
    definition::KINDS,
    etcd::KINDS,
    hardware::KINDS,
    kubernetes::KINDS,
    machine::KINDS,
    manifest::KINDS,
    network::KINDS,
    partition::KINDS,
    route::KINDS,
];

/// The kinds that this node knows.
fn kinds(node: &Node) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().copied().flatten().filter(|kind| node.version.is_at_least(kind.since))
}

/// The kind of that name, in whatever case it is written.
pub(crate) fn kind(node: &Node, name: &str) -> Option<&'static Kind> {
    kinds(node).find(|kind| kind.name.eq_ignore_ascii_case(name))
}

pub(crate) fn has_namespace(name: &str) -> bool {
    definition::NAMESPACES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_administrators_see_depends_on_the_release() {
        let config = "MachineConfigs.config.talos.dev";
        let kubelet = "KubeletSpecs.kubernetes.talos.dev";
        let api_server = "APIServerConfigs.kubernetes.talos.dev";
        let table: [(&str, &[&str]); 4] = [
            ("v1.8.0", &[config]),
            ("v1.12.7", &[config]),
            ("v1.13.6", &[config, kubelet, api_server]),
            ("v1.14.0", &[config, kubelet, api_server]),
        ];
        for (release, expected) in table {
            let version = Version::parse(release).unwrap();
            let all = KINDS.iter().copied().flatten();
            let hidden = all.filter(|kind| kind.is_sensitive(&version)).map(|kind| kind.name);
            assert_eq!(hidden.collect::<Vec<_>>(), expected, "{release}");
        }
    }
}
