//! Both releases of Proxmox, four of Talos, and the five ways of first boot, pairwise: every way with every
//! Talos, every way and every Talos with both releases.

use std::collections::{BTreeMap, BTreeSet};

use talmox_engine::desired::Desired;
use talmox_engine::plan::{Contact, show};

use super::inventory::{self, PAIR};
use super::rig::{Rig, Yard};

const RELEASES: [&str; 2] = ["9.2", "8.4"];
const TALOS: [&str; 4] = ["v1.8.4", "v1.11.2", "v1.12.4", "v1.13.6"];
const WAYS: [&str; 5] = ["cloudinit", "cidata", "meta", "dhcp", "template"];

/// What is run: a way, and with each Talos the releases that it is tried on. The newest Talos is tried on
/// both, in every way.
const RUNS: [(&str, [&[&str]; 4]); 5] = [
    ("cloudinit", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
    ("cidata", [&["8.4"], &["9.2"], &["8.4"], &["9.2", "8.4"]]),
    ("meta", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
    ("dhcp", [&["8.4"], &["9.2"], &["8.4"], &["9.2", "8.4"]]),
    ("template", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
];

/// The runs of the table: release, Talos, way.
fn runs() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    RUNS.into_iter().flat_map(|(way, releases)| {
        let each = TALOS.into_iter().zip(releases);
        each.flat_map(move |(talos, releases)| {
            releases.iter().map(move |release| (*release, talos, way))
        })
    })
}

#[test]
fn the_table_has_every_pair() {
    let all: Vec<_> = runs().collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (25, 25));
    for talos in TALOS {
        for release in RELEASES {
            assert!(all.iter().any(|run| (run.0, run.1) == (release, talos)), "{release} {talos}");
        }
        for way in WAYS {
            assert!(all.iter().any(|run| (run.1, run.2) == (talos, way)), "{talos} {way}");
        }
    }
    for way in WAYS {
        for release in RELEASES {
            assert!(all.iter().any(|run| (run.0, run.2) == (release, way)), "{release} {way}");
        }
    }
}

fn inventory(talos: &str, boot: &str) -> String {
    let head = inventory::HEAD.replace("v1.11.2", talos);
    let nodes = match boot {
        "template" => PAIR.replace("ip:", &format!("template: talos-{talos}-base, ip:")),
        _ => PAIR.to_owned(),
    };
    format!("{head}boot: {boot}\n{nodes}")
}

/// What a DHCP server gives to the nodes.
fn leases(desired: &Desired) -> BTreeMap<String, String> {
    let lease = |node: &talmox_engine::desired::DesiredNode| {
        let Contact::At(address) = node.contact else { panic!("{}", node.name) };
        (node.identity.macs[0].to_string().to_lowercase(), format!("{address}/24"))
    };
    desired.nodes.iter().map(lease).collect()
}

async fn comes_up(release: &'static str, talos: &str, boot: &str) {
    let place = format!("Proxmox VE {release}, Talos {talos}, {boot}");
    let text = inventory(talos, boot);
    let mut yard = Yard { release, ..Yard::default() };
    if boot == "dhcp" {
        yard.nodes.leases = leases(&inventory::desired(&text, &inventory::bundle()));
    }
    let rig = Rig::of(yard);
    if boot == "template" {
        rig.make_templates(&text).await;
    }
    let ran = rig.up(&text).await;
    assert!(ran.outcome.is_done(), "{place}\n{}", ran.failures());
    let picture = rig.picture(&text).await;
    picture.assert_whole(&["cp-1"], &["wk-1"]);
    for (name, node) in &picture.nodes {
        assert_eq!((node.version.as_str(), &node.hostname), (talos, name), "{place}");
    }
    for vm in picture.vms.iter().filter(|(vmid, _)| **vmid >= 300).map(|(_, vm)| vm) {
        let has = |text: &str| vm.config.values().any(|value| value.contains(text));
        let has_drive = matches!(boot, "cloudinit" | "dhcp" | "template");
        assert_eq!(has("cloudinit"), has_drive, "{place}: {vm:#?}");
        // A volume with the config is gone once it was read.
        let disks: Vec<&String> =
            vm.config.keys().filter(|key| *key != "scsihw" && key.starts_with("scsi")).collect();
        assert_eq!(disks, ["scsi0"], "{place}: {vm:#?}");
    }
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{place}\n{}", show::text(&again));
}

/// One way of first boot, as often as the table has it.
async fn every_run(way: &str) {
    for (release, talos, way) in runs().filter(|run| run.2 == way) {
        Box::pin(comes_up(release, talos, way)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_cloudinit_drive() {
    every_run("cloudinit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_cidata_volume() {
    every_run("cidata").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_meta() {
    every_run("meta").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_dhcp() {
    every_run("dhcp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_template() {
    every_run("template").await;
}
