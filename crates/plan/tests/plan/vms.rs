//! Options of new VMs, and which VMs are owned VMs.

use insta::assert_debug_snapshot;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{Observed, TalosSeen};
use talmox_plan::ownership::{FirstRole, Marker, Owner, Stage};
use talmox_plan::plan::{Action, Class, Left, Object, Plan};
use talmox_plan::planning::{self, PlanOptions};
use talmox_pve_types::config::{VmConfig, VmOptions};
use talmox_pve_types::property::Tags;

use crate::observed_state::{carry_out, config_of, empty, foreign, put, settled, vmid};
use crate::support::{
    HEAD, HOME, desired, desired_of, errors, home, home_with, ids, plan, single, token,
};

fn created(plan: &Plan) -> Vec<&VmOptions> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match &step.action {
            Action::CreateVm(create) => Some(&create.options),
            _ => None,
        })
        .collect()
}

#[test]
fn a_vm_with_a_cloudinit_drive() {
    let desired = single("vlan: 40, nics: [{bridge: vmbr1, ip: 10.9.0.1/24}, {bridge: vmbr2}]");
    assert_debug_snapshot!(created(&plan(&desired, &empty())));
}

#[test]
fn a_vm_with_a_cidata_volume() {
    assert_debug_snapshot!(created(&plan(
        &single("boot: cidata, disk_bus: sata, tpm: true"),
        &empty()
    )));
}

#[test]
fn a_vm_of_the_boot_way_meta_has_only_its_disk() {
    let plan = plan(&single("boot: meta"), &empty());
    let options = created(&plan)[0];
    assert!(options.get("ide2").is_none() && options.get("ipconfig0").is_none());
    assert!(ids(&plan).iter().any(|id| id.contains("metal-amd64")), "{:?}", ids(&plan));
}

#[test]
fn tags_are_not_set_at_creation() {
    for options in created(&plan(&home(), &empty())) {
        assert!(options.get("tags").is_none(), "{options:?}");
    }
}

#[test]
fn another_system_keeps_its_volume() {
    let text = format!(
        "{HEAD}machine: {{os: ubuntu, image: {{url: 'https://example.org/noble+server.img'}}}}\n\
         controlplane: [{{name: u-1, ip: 10.0.0.31}}]\n"
    );
    let desired = desired(&text);
    let fresh = plan(&desired, &empty());
    let ids = ids(&fresh);
    assert!(ids[0].starts_with("image/pve1/local/image-noble_server-"), "{ids:?}");
    assert!(ids.contains(&"ubuntu/u-1/up") && !ids.contains(&"vm/u-1/detach-config"), "{ids:?}");
    assert!(!ids.contains(&"etcd/bootstrap"), "{ids:?}");
    // If the node did not answer in an earlier run, the plan waits for it again.
    let mut observed = settled(&desired);
    assert!(plan(&desired, &observed).is_empty());
    observed.silent.insert("u-1".to_owned(), "its guest agent does not answer".to_owned());
    let again = plan(&desired, &observed);
    assert_eq!(crate::support::ids(&again), ["ubuntu/u-1/up"]);
    assert_eq!(again.changes.len(), 1);
}

#[test]
fn vmids_come_from_the_range_and_skip_those_in_use() {
    let mut observed = empty();
    foreign(&mut observed, 303, "mail", "");
    crate::observed_state::taken(&mut observed, 305);
    let changes = plan(&home(), &observed).changes;
    let numbers: Vec<String> = changes
        .iter()
        .flat_map(|change| &change.fields)
        .filter(|field| field.path == "vmid")
        .map(|field| field.new.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(numbers, ["300", "301", "302", "366", "304"]);
}

#[test]
fn control_planes_are_spread_over_hosts() {
    let text = format!("{HEAD}{HOME}").replace("node: pve1", "hosts: [pve1, pve2]");
    let changes = plan(&desired(&text), &empty()).changes;
    let hosts: Vec<String> = changes
        .iter()
        .filter(|change| change.object.to_string().starts_with("vm "))
        .flat_map(|change| change.fields.iter().filter(|field| field.path == "host"))
        .map(|field| field.new.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(hosts, ["pve1", "pve2", "pve1", "pve2", "pve1"]);
}

/// Asserts that another cluster does not change the VMs of the home cluster.
fn untouched(desired: &Desired, reason: &str) {
    let mut observed = settled(&home());
    for number in 300..305 {
        crate::observed_state::taken(&mut observed, number);
    }
    let plan = plan(desired, &observed);
    assert!(!errors(&plan).is_empty(), "{reason}");
    let own = talmox_plan::planning::destroy(
        desired,
        &observed,
        talmox_plan::planning::DestroyOptions::default(),
    );
    assert!(own.steps.is_empty(), "{reason}: {:?}", ids(&own));
}

#[test]
fn vms_of_another_cluster_of_the_same_name_are_foreign() {
    let text = format!("{HEAD}{HOME}");
    untouched(&desired_of(&text, "another id", token()), "same names, same numbers, other id");
}

#[test]
fn an_owned_vm_has_the_marker_and_the_uuid() {
    let desired = home();
    let mut observed = settled(&desired);
    let smbios = VmOptions::new().set("smbios1", "uuid=00000000-0000-4000-8000-000000000000");
    put(&mut observed.pve, vmid(300), &smbios, &[]);
    crate::observed_state::taken(&mut observed, 300);
    let plan = plan(&desired, &observed);
    let taken = "cp-1: vmid 300 is used by another VM (cp-1), which talmox does not manage";
    let why = format!(
        "it has the marker of this node, but the UUID 00000000-0000-4000-8000-000000000000 and not {}",
        desired.nodes[0].identity.uuid
    );
    assert_eq!(errors(&plan), [format!("{taken}: {why}")]);
}

/// The only VM with the marker of a node has another UUID and another vmid.
#[test]
fn no_second_vm_is_created_beside_one_with_the_marker_of_the_node() {
    let desired = home();
    let mut observed = settled(&desired);
    let smbios = VmOptions::new().set("smbios1", "uuid=00000000-0000-4000-8000-000000000000");
    put(&mut observed.pve, vmid(303), &smbios, &[]);
    let seen = observed.pve.vms.remove(&vmid(303)).unwrap();
    observed.pve.vms.insert(vmid(350), seen);
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    let plan = plan(&desired, &observed);
    let found = errors(&plan);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("wk-1: VM 350 has its marker, but the UUID 00000000-"),
        "{found:?}"
    );
    assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some("wk-1")), "{:?}", ids(&plan));
    // Its notes were replaced. Its name and tags are those of the node, or only its name is.
    for (tags, count) in [("home;talmox", 1), ("mine", 0)] {
        let notes = VmOptions::new().description("web server").set("tags", tags);
        // Its address is another matter.
        put(&mut observed.pve, vmid(350), &notes, &["ipconfig0".to_owned()]);
        let found = errors(&crate::support::plan(&desired, &observed));
        assert_eq!(found.len(), count, "{found:?}");
        let expected = "wk-1: VM 350 has its name and the tags of the cluster";
        assert!(found.iter().all(|error| error.starts_with(expected)), "{found:?}");
    }
}

#[test]
fn a_new_clone_is_owned_by_its_marker_alone() {
    let identity = home().identity_of("cp-1");
    let marker = Marker {
        cluster: identity.cluster.clone(),
        node: "cp-1".to_owned(),
        stage: Stage::Clone,
        data: None,
        are_tags_rejected: false,
        first_role: None,
        own_tags: Tags::default(),
        notes: None,
    };
    let config = |marker: &Marker, name: &str| {
        let entries = [
            ("name", name.to_owned()),
            ("description", marker.description("home")),
            ("smbios1", "uuid=00000000-0000-4000-8000-000000000000".to_owned()),
        ];
        VmConfig::new(entries.map(|(key, value)| (key.to_owned(), value)))
    };
    assert!(matches!(identity.judge(&config(&marker, "cp-1")), Owner::Owned(_)));
    assert!(matches!(identity.judge(&config(&marker, "other")), Owner::Foreign { .. }));
    let made = Marker { stage: Stage::Made, ..marker };
    assert!(matches!(identity.judge(&config(&made, "cp-1")), Owner::Foreign { .. }));
}

/// A bootstrap relies on the markers of VMs that do not answer.
#[test]
fn a_vm_created_as_a_worker_does_not_become_a_control_plane() {
    let desired = home();
    let observed = settled(&desired);
    let role = |number: u32| {
        Marker::find(config_of(&observed.pve, vmid(number)).description()).unwrap().first_role
    };
    assert_eq!(role(300), Some(FirstRole::ControlPlane));
    assert_eq!(role(303), Some(FirstRole::Worker));
    let moved = home_with("workers:\n  - {name: wk-1", "  - {name: wk-1");
    let kept = plan(&moved, &observed);
    for name in ["wk-1", "wk-2"] {
        let object = Object::Vm(name.to_owned());
        let changes: Vec<_> = kept.changes.iter().filter(|one| one.object == object).collect();
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!((change.class, change.left), (Class::Replace, Some(Left::NeedsConsent)));
        assert_eq!(change.fields[0].path, "role");
        assert!(!kept.steps.iter().any(|step| step.node.as_deref() == Some(name)), "{name}");
    }
    // A VM that was never started has no data, so its marker is written again.
    let mut observed = empty();
    let steps = plan(&desired, &observed);
    let is_made = |id: &&str| id.starts_with("vm/wk-1/create");
    let made = ids(&steps).iter().position(is_made).unwrap();
    carry_out(&desired, &steps, &mut observed, made + 1);
    let rest = plan(&moved, &observed);
    assert!(!rest.changes.iter().any(|change| change.class == Class::Replace), "{rest:#?}");
}

#[test]
fn users_may_write_notes_around_the_marker() {
    let desired = home();
    let mut observed = settled(&desired);
    let text = config_of(&observed.pve, vmid(300)).description().to_owned();
    let notes = VmOptions::new().description(&format!("# My notes\n\n{text}\n\nmore"));
    put(&mut observed.pve, vmid(300), &notes, &[]);
    assert!(plan(&desired, &observed).is_empty());

    let marker = Marker::find(&format!("a\n{text}\nb")).unwrap();
    assert_eq!(marker.to_string().parse(), Ok(marker.clone()));
    assert_eq!(Marker::find(&format!("{text}\n{text}")), None, "a copy of a copy");
    let next = Marker { stage: Stage::Clone, ..marker };
    let replaced = next.replace_in(&format!("a\n{text}\nb")).unwrap();
    assert_eq!(Marker::find(&replaced), Some(next));
    assert!(replaced.starts_with("a\n") && replaced.ends_with("\nb"), "{replaced}");
}

#[test]
fn another_pinned_checksum_needs_another_image() {
    let pinned =
        |digit: &str| single(&format!("image: {{checksum: 'sha256:{}'}}", digit.repeat(64)));
    let fetched = |desired: &Desired, observed: &Observed| {
        let steps = plan(desired, observed).steps;
        let mut fetches = steps.into_iter().filter_map(|step| match step.action {
            Action::FetchImage(fetch) => Some((fetch.volume.to_string(), fetch.is_present)),
            _ => None,
        });
        fetches.next().unwrap()
    };
    let mut observed = empty();
    let first = pinned("a");
    let steps = plan(&first, &observed);
    let image = steps.steps.iter().position(|step| matches!(step.action, Action::FetchImage(_)));
    carry_out(&first, &steps, &mut observed, image.unwrap() + 1);
    let (name, is_present) = fetched(&first, &observed);
    assert!(is_present, "{name}");
    let plain = fetched(&single("cores: 2"), &observed);
    assert_eq!(name, plain.0.replace(".qcow2", "-aaaaaaaaaaaa.qcow2"));
    assert!(!plain.1, "an image without a pinned checksum is another file");
    let (other, is_present) = fetched(&pinned("b"), &observed);
    assert!(!is_present && other != name, "{other}");
}

#[test]
fn a_stopped_vm_with_an_impossible_change_has_a_hint() {
    let mut observed = settled(&home());
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    // Memory can be changed before the start, but a disk cannot shrink.
    let changeable = home_with("name: wk-1", "memory: 8192, name: wk-1");
    let changed = home_with("name: wk-1", "disk: 20G, name: wk-1");
    let reported = |desired: &Desired, was_up: bool| {
        let plan = planning::plan(
            desired,
            &observed,
            PlanOptions { has_client_files: true, was_up, was_bootstrapped: false },
        );
        let reported = plan.findings.into_iter().find(|finding| finding.subject == "wk-1");
        reported.and_then(|finding| finding.hint).unwrap_or_default()
    };
    let hint = reported(&changed, false);
    assert!(hint.contains("undo them in the inventory"), "{hint}");
    assert!(!hint.contains("qm destroy"), "it may hold data: {hint}");
    assert_eq!(reported(&changed, true), "", "it was in the cluster");
    assert_eq!(reported(&changeable, false), "", "it is changed");
    assert_eq!(reported(&home(), false), "", "it is started");
}
