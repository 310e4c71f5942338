//! The printed commands for rights are enough, without changes, on both releases.

use talmox_engine::observe::free_numbers;
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::desired::Login;
use talmox_plan::plan::{Plan, show};
use talmox_plan::planning;
use talmox_pve::api::access;

use super::inventory::{self, PAIR, pair};
use super::pveum::SECRET;
use super::rig::{LabOptions, Rig};

const RELEASES: [&str; 2] = ["9.2", "8.4"];
const TEST_SCENARIO: &str = include_str!("test_scenario.yaml");
const POOLS: &str = "pools:\n  - {poolid: talos, comment: the cluster}\n";
const DEVICE: &str = "gpu: {pci: '0000:28:00.0'}";

/// A lab with a PCI device, a mapping for another device, and a token without rights.
pub(crate) fn bare(release: &'static str) -> LabOptions {
    let (first, last) =
        (TEST_SCENARIO.find("  roles:\n").unwrap(), TEST_SCENARIO.find("\npools:\n").unwrap());
    let device = |address: &str, group: u8| {
        format!(
            "{{address: '{address}', vendor: '0x10de', device: '0x2204', iommu_group: {group}}}"
        )
    };
    let devices = format!(
        "  - name: pve1\n    pci: [{}, {}]\n",
        device("0000:28:00.0", 12),
        device("0000:29:00.0", 13)
    );
    let mappings = "mappings:\n  pci:\n    - {id: rtx, map: ['node=pve1,path=0000:29:00.0,id=10de:2204,iommugroup=13']}\n";
    let with = vec![
        (&TEST_SCENARIO[first..last], String::new()),
        (POOLS, mappings.to_owned()),
        ("  - name: pve1\n", devices),
    ];
    LabOptions { release, with, ..LabOptions::default() }
}

/// The commands in the hints of a plan.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let hints = plan.errors().filter_map(|finding| finding.hint.as_deref());
    let is_command = |line: &&str| line.starts_with("pveum ") || line.starts_with("zone_");
    hints.flat_map(str::lines).filter(is_command).map(str::to_owned).collect()
}

pub(crate) fn assert_sound(plan: &Plan) {
    assert_eq!(plan.errors().count(), 0, "{}", show::findings(plan));
}

/// With the commands that are printed for a token without rights, the plan has no errors and can be carried out.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_a_plan_grant_all_missing_rights() {
    let with_device = pair().replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21, {DEVICE}"));
    let without_pool = pair().replace("pool: talos, ", "");
    for release in RELEASES {
        for text in [&with_device, &without_pool] {
            let rig = Rig::of(bare(release));
            let weak = rig.plan(text).await;
            assert!(weak.errors().count() >= 4, "{}", show::findings(&weak));
            rig.pveum(&lines(&weak)).await;
            assert_sound(&rig.plan(text).await);
            rig.up(text).await.assert_done();
        }
    }
}

/// The printed commands add privileges that an existing role lacks.
#[tokio::test(flavor = "multi_thread")]
async fn an_existing_role_gets_its_missing_privileges() {
    for release in RELEASES {
        let with = vec![("VM.Config.Options, VM.PowerMgmt", "VM.Config.Options".to_owned())];
        let rig = Rig::of(LabOptions { release, with, ..LabOptions::default() });
        let weak = rig.plan(&pair()).await;
        let findings: Vec<String> =
            weak.errors().map(|one| format!("{}: {}", one.subject, one.message)).collect();
        assert_eq!(findings, ["/pool/talos: the token lacks VM.PowerMgmt"]);
        rig.pveum(&lines(&weak)).await;
        assert_sound(&rig.plan(&pair()).await);
    }
}

/// Creates and destroys a cluster with exactly the roles that `init --role` prints.
async fn comes_up_with_its_roles(lab_options: LabOptions, text: &str) {
    let rig = Rig::of(lab_options);
    rig.pveum(&inventory::grants(text).lines(&rig.desired(text).login)).await;
    let desired = rig.desired(text);
    if desired.nodes.iter().any(|node| node.template.is_some()) {
        make_templates(&rig, text).await;
    }
    rig.up(text).await.assert_done();
    let again = rig.plan(text).await;
    assert!(again.is_empty(), "{}", show::text(&again));
    // A template can be created for existing nodes, on storages that the list of all resources omits.
    assert_sound(&templates(&rig, &text.replace("-base", "-other")).await);
    rig.destroy(text).await.assert_done();
}

async fn templates(rig: &Rig, text: &str) -> Plan {
    let desired = rig.desired(text);
    let observed = rig.observe(&desired).await.unwrap();
    let numbers = free_numbers(&desired, &rig.client(rig.token), 9000, 1).await;
    planning::templates(&desired, &observed, &numbers)
}

/// Creates templates, as `talmox template create` does.
async fn make_templates(rig: &Rig, text: &str) {
    let templates = templates(rig, text).await;
    assert_sound(&templates);
    rig.carry_out(templates, text, None).await.assert_done();
    // The list of all VMs shows the template after the next round of the status daemon.
    while !rig.guests().await.iter().any(|guest| guest.template) {
        rig.lab.clock().sleep(std::time::Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_for_devices() {
    for release in RELEASES {
        let named = pair().replace("ip: 10.0.0.11", "ip: 10.0.0.11, gpu: {mapping: rtx}");
        let text = named.replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21, {DEVICE}"));
        comes_up_with_its_roles(bare(release), &text).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_for_clones_and_volumes() {
    for release in RELEASES {
        let template = "boot: template, template: talos-v1.11.2-base, ip: 10.0.0.21";
        let text = pair()
            .replace("ip: 10.0.0.21", template)
            .replace("ip: 10.0.0.11", "boot: cidata, vlan: 40, ip: 10.0.0.11");
        comes_up_with_its_roles(bare(release), &text).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_to_ask_guest_agents() {
    let worker = "{name: wk-1, boot: dhcp, image: {extensions: [siderolabs/qemu-guest-agent]}}";
    let text = format!("{}{PAIR}", inventory::HEAD).replace("{name: wk-1, ip: 10.0.0.21}", worker);
    for release in RELEASES {
        let mut lab_options = bare(release);
        let desired = inventory::desired(&text, &inventory::bundle());
        let mac = desired.node("wk-1").unwrap().identity.macs[0].to_string().to_lowercase();
        lab_options.nodes.leases.insert(mac, "10.0.0.21/24".to_owned());
        comes_up_with_its_roles(lab_options, &text).await;
    }
}

/// The inventory has no pool, so the rights are for all VMs.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_without_a_pool() {
    for release in RELEASES {
        comes_up_with_its_roles(bare(release), &pair().replace("pool: talos, ", "")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_roles_are_enough_for_other_systems() {
    let image = "https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-amd64.img";
    let worker = format!(
        "{{name: wk-1, ip: 10.0.0.21, os: ubuntu, image: {{url: '{image}'}}, \
         cloud_init: {{packages: [qemu-guest-agent]}}}}"
    );
    let text = pair().replace("{name: wk-1, ip: 10.0.0.21}", &worker);
    for release in RELEASES {
        comes_up_with_its_roles(bare(release), &text).await;
    }
}

/// The commands show no error, neither on the first run nor on a later one, although the right to query guest agents has
/// another name in each release. The last line is the token with its secret, in the format that talmox reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_for_a_new_token_show_no_error_and_end_with_its_secret() {
    let worker = "{name: wk-1, boot: dhcp, image: {extensions: [siderolabs/qemu-guest-agent]}}";
    let text = format!("{}{PAIR}", inventory::HEAD).replace("{name: wk-1, ip: 10.0.0.21}", worker);
    let login = Login { user: "talmox@pve".to_owned(), token: Some("fresh".to_owned()) };
    for (release, right) in [("9.2", "VM.GuestAgent.Audit"), ("8.4", "VM.Monitor")] {
        let rig = Rig::of(bare(release));
        let grants = inventory::grants(&text);
        let printed = rig.pveum(&grants.lines_for_new(&login)).await;
        assert_eq!(printed, format!("talmox@pve!fresh={SECRET}\n"));
        assert_eq!(rig.pveum(&grants.lines(&rig.desired(&text).login)).await, "");
        let granted = rig.client(rig.token).send(&access::permissions()).await.unwrap();
        assert!(granted.allows("/pool/talos", right), "{granted:?}");
    }
}

/// On a busy machine an answer may come too late, which must not matter for the commands.
#[tokio::test(flavor = "multi_thread")]
async fn late_answers_do_not_prevent_the_commands() {
    let rig = Rig::of(bare("9.2"));
    for (method, path) in [("POST", "/access/roles"), ("PUT", "/access/acl")] {
        rig.inject_fault(method, path, 2, FaultAction::TimedOut);
    }
    rig.pveum(&inventory::grants(&pair()).lines(&rig.desired(&pair()).login)).await;
    assert_sound(&rig.plan(&pair()).await);
}
