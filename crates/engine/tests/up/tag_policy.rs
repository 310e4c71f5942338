//! Datacenters whose tag policy does not let the token set the tags of VMs. talmox works without the tags.

use talmox_plan::plan::{Class, Object, show};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;

use super::inventory::{self, home, pair};
use super::rig::{ADMIN, LabOptions, Rig};
use super::role::bare;

const RELEASES: [&str; 2] = ["9.2", "8.4"];
const POLICIES: [&str; 4] = [
    "user-tag-access: user-allow=none",
    "user-tag-access: user-allow=existing",
    "user-tag-access: user-allow=list,user-allow-list=prod",
    "registered-tags: talmox",
];

fn with_policy(lab_options: LabOptions, policy: &str) -> LabOptions {
    let mut lab_options = lab_options;
    let datacenter = format!("cluster: lab\ndatacenter:\n  {policy}\n");
    lab_options.with.push(("cluster: lab\n", datacenter));
    lab_options
}

fn lab_options(release: &'static str, policy: &str) -> LabOptions {
    with_policy(LabOptions { release, ..LabOptions::default() }, policy)
}

fn vm(vmid: u32) -> Vm {
    Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap())
}

/// Checks that these VMs are the same as without a policy, except for the tags, and that no part of a change is pending.
async fn assert_complete(rig: &Rig, free: &Rig, vmids: &[u32]) {
    let (vms, expected) = (rig.vms().await, free.vms().await);
    for vmid in vmids {
        let mut config = vms[vmid].config.clone();
        let mut expected = expected[vmid].config.clone();
        assert_eq!(config.remove("tags"), None);
        assert_eq!(expected.remove("tags").as_deref(), Some("home;talmox"));
        // Only tags that talmox set are recorded.
        let marker = expected["description"].replace(" own-tags=home;talmox", " tags=rejected");
        expected.insert("description".to_owned(), marker);
        assert_eq!(config, expected);
        let options = rig.client(ADMIN).send(&qemu::pending(&vm(*vmid))).await.unwrap();
        assert!(options.iter().all(|option| option.pending.is_none()), "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_a_warning_and_plans_stay_empty() {
    for release in RELEASES {
        let free = Rig::of(LabOptions { release, ..LabOptions::default() });
        free.up(&pair()).await.assert_done();
        for policy in POLICIES {
            let rig = Rig::of(lab_options(release, policy));
            let ran = rig.up(&pair()).await;
            ran.assert_done();
            let notes = ran.notes().into_iter().filter(|note| note.contains("rejected the tags"));
            let notes: Vec<&str> = notes.collect();
            assert_eq!(notes.len(), 2, "{notes:?}");
            assert!(notes[0].contains("user-tag-access, registered-tags"), "{notes:?}");
            assert_complete(&rig, &free, &[300, 303]).await;
            let plan = rig.plan(&pair()).await;
            assert!(plan.is_empty(), "{}", show::text(&plan));
            assert_eq!(plan.errors().count(), 0);
            let warnings: Vec<&str> =
                plan.findings.iter().map(|finding| finding.subject.as_str()).collect();
            assert_eq!(warnings, ["cp-1", "wk-1"], "{}", show::findings(&plan));
            assert!(show::findings(&plan).contains("qm set 300 --tags 'home;talmox'"));
            rig.destroy(&pair()).await.assert_done();
            assert_eq!(rig.vms().await.into_keys().collect::<Vec<_>>(), [100]);
        }
    }
}

/// Tags that the policy allows are set as usual.
#[tokio::test(flavor = "multi_thread")]
async fn tags_that_the_policy_allows_are_set() {
    for release in RELEASES {
        let policy = "user-tag-access: user-allow=list,user-allow-list=home;talmox";
        let rig = Rig::of(lab_options(release, policy));
        let ran = rig.up(&pair()).await;
        ran.assert_done();
        assert!(ran.notes().iter().all(|note| !note.contains("tags")), "{:?}", ran.notes());
        assert_eq!(rig.vms().await[&300].config["tags"], "home;talmox");
        let plan = rig.plan(&pair()).await;
        assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
    }
}

/// After an administrator has set the tags, there is no warning.
#[tokio::test(flavor = "multi_thread")]
async fn tags_that_an_administrator_sets_end_the_warning() {
    let rig = Rig::of(lab_options("9.2", POLICIES[0]));
    rig.up(&pair()).await.assert_done();
    for vmid in [300, 303] {
        let set = VmOptions::new().set("tags", "home;talmox");
        let change = VmChange { set, ..VmChange::default() };
        rig.client(ADMIN).send(&qemu::set_config(&vm(vmid), &change)).await.unwrap();
    }
    let plan = rig.plan(&pair()).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
}

/// Without a pool, VMs of removed nodes are found by their tags. Without tags, they are found by their markers.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_without_tags_and_pool_is_found() {
    for release in RELEASES {
        let rig = Rig::of(with_policy(bare(release), POLICIES[0]));
        let text = pair().replace("pool: talos, ", "");
        rig.pveum(&inventory::grants(&text).lines(&rig.desired(&text).login)).await;
        rig.up(&text).await.assert_done();
        let fewer = text.replace("workers:\n  - {name: wk-1, ip: 10.0.0.21}\n", "");
        let plan = rig.plan(&fewer).await;
        let gone = plan.changes.iter().filter(|change| change.class == Class::Destroy);
        let gone: Vec<&Object> = gone.map(|change| &change.object).collect();
        assert!(gone.contains(&&Object::Vm("wk-1".to_owned())), "{}", show::text(&plan));
        rig.destroy(&fewer).await.assert_done();
        assert_eq!(rig.vms().await.into_keys().collect::<Vec<_>>(), [100]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_costs_no_further_requests() {
    let rig = Rig::of(lab_options("9.2", POLICIES[0]));
    rig.up(&home()).await.assert_done();
    let fresh = rig.recorded_requests();
    assert!(fresh.len() <= 52, "{} requests:\n{}", fresh.len(), fresh.join("\n"));
    rig.plan(&home()).await;
    let all = rig.recorded_requests();
    let again = &all[fresh.len()..];
    assert!(again.len() <= 5 + 6, "{} requests:\n{}", again.len(), again.join("\n"));
}
