//! The node's part of etcd.

use serde_json::json;

use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};

const SPEC: &[Field] = &[
    ("name", 1, Form::Text),
    ("advertisedAddresses", 2, Form::Each(&Form::Address)),
    ("image", 3, Form::Text),
    ("listenPeerAddresses", 5, Form::Each(&Form::Address)),
    ("listenClientAddresses", 6, Form::Each(&Form::Address)),
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "EtcdMembers.etcd.talos.dev",
        namespace: "etcd",
        columns: &[("Member ID", "{.memberID}")],
        proto: &[("memberID", 1, Form::Text)],
        list: |view| {
            let part = view.node.etcd.iter();
            part.map(|part| {
                Item::new("local", json!({ "memberID": format!("{:016x}", part.member) }))
            })
            .collect()
        },
        ..KIND
    },
    Kind {
        name: "EtcdSpecs.etcd.talos.dev",
        namespace: "etcd",
        columns: &[("Name", "{.name}"), ("AdvertisedAddresses", "{.advertisedAddresses}")],
        proto: SPEC,
        list: spec,
        ..KIND
    },
];

fn spec(view: &View<'_>) -> Vec<Item> {
    let node = view.node;
    if !node.is_control_plane() {
        return vec![];
    }
    let Some(address) = node.etcd_address() else { return vec![] };
    let address = address.to_string();
    let minor = node.version.minor;
    let registry =
        if minor >= 12 { "registry.k8s.io/etcd" } else { "gcr.io/etcd-development/etcd" };
    let tag = match minor {
        ..=8 => "v3.5.17",
        9 => "v3.5.21",
        10 => "v3.5.26",
        11 => "v3.6.5",
        12 => "v3.6.11",
        13 => "v3.6.12",
        14.. => "v3.7.1",
    };
    let spec = json!({
        "name": node.hostname(), "advertisedAddresses": [address],
        "listenPeerAddresses": [address], "listenClientAddresses": [address],
        "image": format!("{registry}:{tag}"),
    });
    vec![Item::new("etcd", spec)]
}
