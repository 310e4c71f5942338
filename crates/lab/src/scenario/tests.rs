use talmox_clock::Chance;
use talmox_lab_environment::fault::Fault;
use talmox_lab_pve::Blobs;
use talmox_lab_pve::pve_state::PveState;

use super::*;
use crate::FaultScript as _;

fn pve_state(text: &str) -> PveState {
    of(Scenario::parse("lab.yaml", text).unwrap())
}

fn of(scenario: Scenario) -> PveState {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(folder.path()).unwrap();
    scenario.into_pve_state(&blobs, 1_000_000, &mut Chance::new(1)).unwrap()
}

fn rejection(text: &str) -> String {
    let error = Scenario::parse("lab.yaml", text).unwrap_err();
    match &error.hint {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

#[test]
fn an_empty_scenario_is_a_freshly_installed_host() {
    let pve_state = pve_state("");
    assert_eq!(pve_state.hosts.keys().collect::<Vec<_>>(), ["pve"]);
    assert_eq!(pve_state.storages.keys().collect::<Vec<_>>(), ["local", "local-lvm"]);
    let content: Vec<_> =
        pve_state.storages["local"].content.iter().map(|kind| kind.name()).collect();
    assert_eq!(content, ["iso", "vztmpl", "backup", "import"]);
    assert_eq!(pve_state.cluster_name, None);
    assert_eq!(pve_state.access.users["root@pam"].password.as_ref().unwrap().len(), 16);
    let secret = &pve_state.access.tokens["root@pam!lab"].secret;
    assert_eq!(secret.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    for old in [self::pve_state("release: 8.4"), of(Scenario::default().with_release(Release::V8))]
    {
        let content: Vec<_> =
            old.storages["local"].content.iter().map(|kind| kind.name()).collect();
        assert_eq!(content, ["iso", "vztmpl", "backup"]);
    }
}

#[test]
fn secrets_are_reproducible_with_the_seed() {
    let secret = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let pve_state =
            Scenario::default().into_pve_state(&blobs, 0, &mut Chance::new(seed)).unwrap();
        pve_state.access.tokens["root@pam!lab"].secret.clone()
    };
    assert_eq!(secret(1), secret(1));
    assert_ne!(secret(1), secret(2));
}

#[test]
fn volumes_are_on_the_host_of_their_vm() {
    let pve_state = pve_state(
        r#"{"nodes": ["pve1", "pve2"],
            "volumes": [
                {"volid": "local-lvm:vm-100-disk-0", "format": "raw", "size": 10737418240},
                {"volid": "local-lvm:snap_vm-100-disk-0_before_it", "format": "raw", "size": 4096},
                {"volid": "local:iso/talos.iso", "format": "raw", "size": 1048576},
                {"volid": "local:snippets/user.yaml", "text": "hello\n"},
                {"volid": "local-lvm:vm-101-disk-0", "size": "1G", "node": "pve1"}],
            "vms": [{"vmid": 100, "node": "pve2", "status": "running",
                "config": {"cores": 2, "scsi0": "file=local-lvm:vm-100-disk-0,size=10G"},
                "pending": {"cores": "8", "delete": "agent,!scsi1"}}]}"#,
    );
    let lvm = &pve_state.storages["local-lvm"];
    assert!(lvm.volume("pve1", "vm-100-disk-0").is_none());
    let disk = lvm.volume("pve2", "vm-100-disk-0").unwrap();
    let saved = &disk.snapshots["before_it"];
    assert_eq!((saved.size, &saved.blob), (4096, &None));
    assert!(lvm.volume("pve1", "vm-101-disk-0").is_some());
    assert!(lvm.volume("pve2", "vm-101-disk-0").is_none());
    for host in ["pve1", "pve2"] {
        let iso = pve_state.storages["local"].volume(host, "iso/talos.iso").unwrap();
        assert_eq!((iso.format.as_str(), iso.size, &iso.blob), ("raw", 1_048_576, &None));
        let snippet = pve_state.storages["local"].volume(host, "snippets/user.yaml").unwrap();
        assert_eq!((snippet.size, snippet.blob.is_some()), (6, true));
    }
    let vm = &pve_state.vms[&100];
    assert!(vm.is_running());
    assert_eq!(vm.config["cores"], "2");
    assert_eq!(vm.pending.keys().collect::<Vec<_>>(), ["cores"]);
    assert_eq!(vm.pending_delete.keys().collect::<Vec<_>>(), ["agent", "scsi1"]);
    assert_eq!(pve_state.cluster_name.as_deref(), Some("lab"));
}

#[test]
fn linked_clones_refer_to_their_base() {
    let pve_state = pve_state(
        "{storages: [{storage: files, type: dir}],
          volumes: [{volid: 'files:9000/base-9000-disk-0.qcow2', size: 4G},
                    {volid: 'files:110/vm-110-disk-0.qcow2', size: 4G}],
          vms: [{vmid: 110, config: {scsi0: 'files:9000/base-9000-disk-0.qcow2/110/vm-110-disk-0.qcow2'}}]}",
    );
    let volume = pve_state.storages["files"].volume("pve", "110/vm-110-disk-0.qcow2").unwrap();
    assert_eq!(volume.base.as_deref(), Some("9000/base-9000-disk-0.qcow2"));
    assert_eq!(volume.format, "qcow2");
}

#[test]
fn vm_snapshots_include_its_disks() {
    let pve_state = pve_state(
        "{volumes: [{volid: 'local-lvm:vm-100-disk-0', size: 4G}],
          vms: [{vmid: 100, config: {parent: s1, scsi0: 'local-lvm:vm-100-disk-0,size=4G'},
                 snapshots: {s1: {snaptime: 1700000000, scsi0: 'local-lvm:vm-100-disk-0,size=4G'}}}]}",
    );
    let volume = pve_state.storages["local-lvm"].volume("pve", "vm-100-disk-0").unwrap();
    let saved = &volume.snapshots["s1"];
    assert_eq!((saved.size, &saved.blob), (4 << 30, &None));
    assert_eq!(pve_state.vms[&100].snapshots["s1"].config["snaptime"], "1700000000");
}

#[test]
fn scenario_errors_have_a_line_and_a_hint() {
    let cases = [
        (
            "nodes: [pve]\nstorges: []",
            "lab.yaml:2: the scenario has no `storges` (did you mean `storages`?)",
        ),
        ("release: 7.4", "lab.yaml:1: the lab does not simulate Proxmox VE 7.4 (known: 9.2, 8.4)"),
        (
            "nodes:\n  - name: pve\n    core: 4",
            "lab.yaml:3: a host has no `core` (did you mean `cores`?)",
        ),
        ("nodes: [a, a]", "lab.yaml:1: host `a` is defined twice"),
        ("vms:\n- {vmid: 100, config: {corez: 2}}", "lab.yaml:2: a VM has no option `corez`"),
        (
            "access:\n  acl:\n  - {path: /, ugid: a@pve, roleid: Boss}",
            "lab.yaml:3: there is no role `Boss` (define custom roles under `roles`)",
        ),
        (
            "access:\n  acl:\n  - {path: /, ugid: a@pve, roleid: PVEAdmin}",
            "lab.yaml:3: there is no `a@pve` (define it under `users`)",
        ),
        (
            "access:\n  users: [a@pve]\n  acl:\n  - {path: /, ugid: a@pve!x, roleid: PVEAdmin}",
            "lab.yaml:4: there is no `a@pve!x` (define it under `tokens`)",
        ),
        (
            "access:\n  acl:\n  - {path: /, ugid: '@a', roleid: PVEAdmin}",
            "lab.yaml:3: there is no `@a` (define it under `groups`)",
        ),
        (
            "storages:\n- {storage: s, type: dirr}",
            "lab.yaml:2: the lab has no storage of type `dirr` (did you mean `dir`?)",
        ),
        (
            "storages:\n- {storage: s, type: dir, content: 'iso,image'}",
            "lab.yaml:2: there is no content `image` (did you mean `images`?)",
        ),
        (
            "volumes:\n- {volid: 'nfs:x', size: 1G}",
            "lab.yaml:2: there is no storage `nfs` (known: local, local-lvm)",
        ),
        ("volumes:\n- {volid: 'local:iso/x.iso'}", "lab.yaml:2: a volume needs `size` or `text`"),
        ("vms:\n- {vmid: 9}", "lab.yaml:2: a vmid is a number from 100 to 999999999"),
        (
            "vms:\n- {vmid: 100, node: pv}",
            "lab.yaml:2: there is no host `pv` (did you mean `pve`?)",
        ),
        ("vms:\n- {vmid: 100, status: on}", "lab.yaml:2: `status` is running or stopped, not `on`"),
        (
            "access: {users: [ops]}",
            "lab.yaml:1: `ops` is not a user (a user is named name@realm, like ops@pve)",
        ),
        (
            "access: {tokens: [{tokenid: ops@pve}]}",
            "lab.yaml:1: `ops@pve` is not a token (a token is named user@realm!id, like ops@pve!ci)",
        ),
        (
            "nodes: [{name: pve, memory: 3X}]",
            "lab.yaml:1: `memory` is a size, not `3X` (write bytes, or a number with KiB, MiB, GiB or TiB)",
        ),
        ("nodes: {a: b}", "lab.yaml:1: `nodes` must be a list, not a mapping"),
        ("pools: [{poolid: a, poolid: b}]", "lab.yaml:1: `poolid` is defined twice"),
        (
            "ha: {groups: {a: {nodes: pve}}}",
            "lab.yaml:1: Proxmox VE 9.2 has no HA groups (it has `rules`)",
        ),
        ("a: [", "lab.yaml:1: "),
        ("---\n{}\n---\n{}", "lab.yaml:4: a scenario is one document, not several"),
    ];
    for (text, expected) in cases {
        let found = rejection(text);
        assert!(found.starts_with(expected), "{text}\n  {found}\n  {expected}");
        assert!(expected.ends_with(": ") || found.len() == expected.len(), "{found}");
    }
}

#[test]
fn the_documented_sample_scenario_is_valid() {
    let text = include_str!("../../../../docs/LAB.md");
    let sample = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = Scenario::parse("docs/LAB.md", sample).unwrap();
    assert_eq!(Fault::of_scenario(&scenario).unwrap().len(), 10);
    let pve_state = of(scenario);
    assert_eq!(pve_state.hosts.len(), 2);
    assert_eq!(pve_state.hosts["pve2"].pci[0].iommu_group, 1);
    assert_eq!(pve_state.storages.len(), 5);
    assert!(pve_state.storages["nas"].shared);
    assert!(pve_state.storages["local-lvm"].volume("pve1", "vm-100-disk-0").is_some());
    let run = pve_state.vms[&100].run.as_ref().unwrap();
    assert_eq!(run.agent.as_ref().unwrap().interfaces[0].2[0].1, 24);
    assert!(run.held_drives.contains("scsi0"));
    assert_eq!(pve_state.access.acl.len(), 2);
    assert!(pve_state.access.groups["admins"].contains("ops@pve"));
    // The sample must contain every key of the scenario.
    for key in KEYS {
        assert!(sample.lines().any(|line| line.starts_with(&format!("{key}:"))), "{key}");
    }
}
