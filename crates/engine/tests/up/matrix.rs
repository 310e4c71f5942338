//! Tests of all pairs of Proxmox releases, Talos versions and boot ways. DHCP has two variants: with addresses in the
//! inventory, and with addresses that only guest agents report.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::desired::{Contact, Desired};
use talmox_plan::plan::show;

use super::inventory::{self, PAIR};
use super::rig::{LabOptions, Rig};

const RELEASES: [&str; 2] = ["9.2", "8.4"];
const TALOS: [&str; 4] = ["v1.8.4", "v1.11.2", "v1.12.4", "v1.13.6"];
const WAYS: [&str; 6] = ["cloudinit", "cidata", "meta", "dhcp", AGENT, "template"];
/// `boot: dhcp` without addresses in the inventory.
const AGENT: &str = "dhcp by agent";

/// The tested combinations: for each boot way, and for each Talos version, the Proxmox releases. The newest Talos is tested
/// with both releases, in every boot way.
const RUNS: [(&str, [&[&str]; 4]); 6] = [
    ("cloudinit", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
    ("cidata", [&["8.4"], &["9.2"], &["8.4"], &["9.2", "8.4"]]),
    ("meta", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
    ("dhcp", [&["8.4"], &["9.2"], &["8.4"], &["9.2", "8.4"]]),
    (AGENT, [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
    ("template", [&["9.2"], &["8.4"], &["9.2"], &["8.4", "9.2"]]),
];

/// The combinations of the table: Proxmox release, Talos version, boot way.
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
    assert_eq!((all.len(), distinct.len()), (30, 30));
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

fn inventory(talos: &str, way: &str) -> String {
    let head = inventory::HEAD.replace("v1.11.2", talos);
    match way {
        "template" => {
            let nodes = PAIR.replace("ip:", &format!("template: talos-{talos}-base, ip:"));
            format!("{head}boot: template\n{nodes}")
        }
        AGENT => {
            let image = "image: {extensions: [siderolabs/qemu-guest-agent]}";
            let nodes = PAIR.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
            format!("{head}boot: dhcp\n{image}\n{nodes}")
        }
        _ => format!("{head}boot: {way}\n{PAIR}"),
    }
}

/// The leases of the DHCP server for the nodes.
fn leases(desired: &Desired) -> BTreeMap<String, String> {
    let nodes = desired.nodes.iter().zip(101..);
    let lease = |(node, number): (&talmox_plan::desired::DesiredNode, u8)| {
        let address = match node.contact {
            Contact::At(address) => address.to_string(),
            Contact::AskAgent => format!("10.0.0.{number}"),
        };
        (node.identity.macs[0].to_string().to_lowercase(), format!("{address}/24"))
    };
    nodes.map(lease).collect()
}

/// Settings of the lab: the DHCP leases, and the right to query guest agents if it is needed.
fn lab_options(release: &'static str, way: &str, text: &str) -> LabOptions {
    let mut lab_options = LabOptions { release, ..LabOptions::default() };
    if matches!(way, "dhcp" | AGENT) {
        lab_options.nodes.leases = leases(&inventory::desired(text, &inventory::bundle()));
    }
    if way == AGENT {
        let right = if release == "8.4" { "VM.Monitor" } else { "VM.GuestAgent.Audit" };
        lab_options.with = vec![("Pool.Audit]", format!("Pool.Audit, {right}]"))];
    }
    lab_options
}

async fn comes_up(release: &'static str, talos: &str, way: &str) {
    let place = format!("Proxmox VE {release}, Talos {talos}, {way}");
    let text = inventory(talos, way);
    let rig = Rig::of(lab_options(release, way, &text));
    if way == "template" {
        rig.make_templates(&text).await;
    }
    let ran = rig.up(&text).await;
    assert!(ran.outcome.is_done(), "{place}\n{}", ran.failures());
    let lab_state = rig.lab_state(&text).await;
    lab_state.assert_complete(&["cp-1"], &["wk-1"]);
    for (name, node) in &lab_state.nodes {
        assert_eq!((node.version.as_str(), &node.hostname), (talos, name), "{place}");
    }
    for vm in lab_state.vms.iter().filter(|(vmid, _)| **vmid >= 300).map(|(_, vm)| vm) {
        let has = |text: &str| vm.config.values().any(|value| value.contains(text));
        let has_drive = matches!(way, "cloudinit" | "dhcp" | AGENT | "template");
        assert_eq!(has("cloudinit"), has_drive, "{place}: {vm:#?}");
        // The cidata volume is removed after the node has read it.
        let disks: Vec<&String> =
            vm.config.keys().filter(|key| *key != "scsihw" && key.starts_with("scsi")).collect();
        assert_eq!(disks, ["scsi0"], "{place}: {vm:#?}");
    }
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{place}\n{}", show::text(&again));
}

/// Tests one boot way with all combinations of the table.
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
async fn by_dhcp_and_the_guest_agent() {
    every_run(AGENT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_template() {
    every_run("template").await;
}
