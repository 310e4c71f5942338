//! Both releases of Proxmox, four of Talos, and the five ways of first boot, pairwise: every way with every
//! Talos, every way and every Talos with both releases.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_engine::desired::Desired;
use talmox_engine::plan::{Action, Contact, MakeTemplate, Plan, Step, StepId, show};
use talmox_pve::api::qemu::Vm;
use talmox_pve::config::VmOptions;
use talmox_pve::id::VmId;

use super::inventory::{self, PAIR};
use super::rig::{Rig, Yard};

const TALOS: [&str; 4] = ["v1.8.4", "v1.11.2", "v1.12.4", "v1.13.6"];
const RELEASES: [&str; 2] = ["9.2", "8.4"];

pub(crate) fn inventory(talos: &str, boot: &str) -> String {
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

/// Makes the template that clones are made of: from the image that a node without one would get.
pub(crate) async fn make_template(rig: &Rig, talos: &str) {
    let text = inventory(talos, "cloudinit");
    let Plan { cluster, steps, .. } = rig.plan(&text).await;
    let create = steps.iter().find_map(|step| match &step.action {
        Action::CreateVm(create) => Some(create.clone()),
        _ => None,
    });
    let create = create.unwrap();
    let kept = ["machine", "bios", "efidisk0", "scsihw", "scsi0", "cpu", "memory", "cores", "boot"];
    let name = format!("talos-{talos}-base");
    let options = create
        .options
        .iter()
        .filter(|(key, _)| kept.contains(key))
        .fold(VmOptions::new().name(&name), |options, (key, value)| options.set(key, value));
    let mut own: Vec<Step> = steps
        .into_iter()
        .filter(|step| matches!(step.action, Action::PostSchematic(_) | Action::FetchImage(_)))
        .collect();
    let action = Action::MakeTemplate(MakeTemplate {
        vm: Vm::new(&"pve1".parse().unwrap(), VmId::new(200).unwrap()),
        name,
        pool: create.pool,
        options,
        deadline: create.deadline,
    });
    let after = own.iter().map(|step| step.id.clone()).collect();
    own.push(Step { id: StepId::new("template"), node: None, action, after });
    let plan = Plan { cluster, changes: vec![], findings: vec![], steps: own };
    rig.carry_out(plan, &text, None).await.assert_done();
    // The list of all VMs learns of it with the next round of the status daemon.
    while !rig.guests().await.iter().any(|guest| guest.template) {
        rig.lab.clock().sleep(Duration::from_secs(1)).await;
    }
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
        make_template(&rig, talos).await;
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
        assert!(!vm.config.contains_key("scsi1"), "{place}: {vm:#?}");
    }
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{place}\n{}", show::text(&again));
}

/// One way of first boot with every Talos, on one release and the other in turn.
async fn every_talos(boot: &str, first: usize) {
    for (number, talos) in TALOS.into_iter().enumerate() {
        comes_up(RELEASES[(number + first) % 2], talos, boot).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_cloudinit_drive() {
    every_talos("cloudinit", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_a_cidata_volume() {
    every_talos("cidata", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_meta() {
    every_talos("meta", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_dhcp() {
    every_talos("dhcp", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_template() {
    every_talos("template", 0).await;
}
