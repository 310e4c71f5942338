//! Network cards on SDN vnets. The right on a vnet is granted in the zone of the vnet, and not in the zone of the bridges of
//! the hosts.

use talmox_plan::plan::show;
use talmox_pve::api::access;

use super::inventory::{self, pair};
use super::rig::{LabOptions, Rig};
use super::role::{assert_sound, bare, lines};

const RELEASES: [&str; 2] = ["9.2", "8.4"];

/// A lab with a vnet, and a token without rights.
fn lab_options(release: &'static str) -> LabOptions {
    let mut lab_options = bare(release);
    let sdn = "cluster: lab\nsdn:\n  zones: [{zone: rack, type: simple}]\n  vnets: [{vnet: vnet0, zone: rack}]\n";
    lab_options.with.push(("cluster: lab\n", sdn.to_owned()));
    lab_options
}

fn text() -> String {
    pair()
        .replace("{name: cp-1, ", "{name: cp-1, bridge: vnet0, ")
        .replace("{name: wk-1, ", "{name: wk-1, bridge: vnet0, ")
}

/// The paths on which the token has `SDN.Use`, according to the lab.
async fn zones(rig: &Rig) -> Vec<String> {
    let granted = rig.client(rig.token).send(&access::permissions()).await.unwrap();
    let networks = granted.0.into_iter().filter(|(_, rights)| rights.contains_key("SDN.Use"));
    networks.map(|(path, _)| path).collect()
}

async fn comes_up(rig: &Rig) {
    assert_eq!(zones(rig).await.last().unwrap(), "/sdn/zones/rack/vnet0");
    assert_sound(&rig.plan(&text()).await);
    rig.up(&text()).await.assert_done();
    let vms = rig.vms().await;
    for vmid in [300, 303] {
        let net = &vms[&vmid].config["net0"];
        assert!(net.contains("bridge=vnet0"), "{net}");
        assert_eq!(vms[&vmid].status, "running");
    }
    let again = rig.plan(&text()).await;
    assert!(again.is_empty() && again.findings.is_empty(), "{}", show::text(&again));
    rig.destroy(&text()).await.assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_for_vnets() {
    for release in RELEASES {
        let rig = Rig::of(lab_options(release));
        rig.pveum(&inventory::grants(&text()).lines(&rig.desired(&text()).login)).await;
        comes_up(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_the_right_prints_how_to_grant_it_in_the_zone() {
    for release in RELEASES {
        let rig = Rig::of(lab_options(release));
        let weak = rig.plan(&text()).await;
        let shown = show::findings(&weak);
        assert!(shown.contains("/sdn/zones/ZONE/vnet0: the token lacks SDN.Use"), "{shown}");
        assert!(!shown.contains("bridge-missing"), "{shown}");
        rig.pveum(&lines(&weak)).await;
        comes_up(&rig).await;
    }
}

/// Earlier versions printed this right. With it, Proxmox lists no bridge at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_in_the_wrong_zone_is_not_taken_for_a_missing_bridge() {
    for release in RELEASES {
        let rig = Rig::of(lab_options(release));
        let login = rig.desired(&text()).login;
        let wrong = inventory::grants(&text()).lines(&login).into_iter();
        let wrong = wrong.filter(|line| !line.starts_with("zone_"));
        rig.pveum(&wrong.collect::<Vec<_>>()).await;
        assert_eq!(zones(&rig).await, ["/sdn/zones/localnetwork/vnet0"]);
        let plan = rig.plan(&text()).await;
        let errors: Vec<&str> = plan.errors().map(|one| one.message.as_str()).collect();
        assert_eq!(errors, ["bridge or SDN vnet vnet0 not found, or the token may not use it"]);
        rig.pveum(&lines(&plan)).await;
        comes_up(&rig).await;
    }
}
