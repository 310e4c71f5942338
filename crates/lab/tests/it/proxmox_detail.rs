//! Tests of rejections and details of the real Proxmox that a less strict simulation would miss.

use serde_json::{Value as Json, json};

use crate::support::{Answer, TestLab, scenario};
use crate::upload::outcome;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn data(lab: &TestLab, path: &str) -> Json {
    let answer = lab.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()["data"].clone()
}

/// Sends a call, and returns the exit status of its task.
fn task(lab: &TestLab, method: &str, path: &str, form: &str) -> String {
    outcome(lab, &lab.request(method, path, if form.is_empty() { "" } else { FORM }, form))
}

/// Sends a request as root@pam with a ticket. root may set options that no token may set.
fn as_root(lab: &TestLab, method: &str, path: &str, form: &str) -> Answer {
    let login = format!("username=root@pam&password={}", lab.pve.password);
    let answer = lab.raw(format!(
        "POST /api2/json/access/ticket HTTP/1.1\r\nContent-Length: {}\r\n\r\n{login}",
        login.len()
    ));
    let shown = &answer.json()["data"];
    let ticket = shown["ticket"].as_str().unwrap().replace('+', "%2B");
    let csrf = shown["CSRFPreventionToken"].as_str().unwrap();
    let who = format!("Cookie: PVEAuthCookie={ticket}\r\nCSRFPreventionToken: {csrf}\r\n");
    lab.raw(lab.text(method, path, FORM, form).replace(&lab.token_header(), &who))
}

/// The storage plugins detect linked clones by the names of volumes. On directories and ZFS, the name of a clone contains its
/// base volume. On LVM-thin, it does not.
#[test]
fn a_base_volume_with_linked_clones_cannot_be_deleted() {
    let lab = TestLab::start(scenario(
        "
nodes: [pve]
storages:
  - {storage: files, type: dir, path: /var/lib/files, content: images}
  - {storage: nas, type: nfs, server: 10.0.0.5, export: /x, content: images}
  - {storage: tank, type: zfspool, pool: tank, content: images}
  - {storage: thin, type: lvmthin, vgname: pve, thinpool: data, content: images}
",
    ));
    for (vmid, storage, disk, base) in [
        (100, "files", "files:1,format=qcow2", "100/base-100-disk-0.qcow2"),
        (102, "files", "files:1,format=raw", "102/base-102-disk-0.raw"),
        (104, "nas", "nas:1,format=qcow2", "104/base-104-disk-0.qcow2"),
        (106, "tank", "tank:1", "base-106-disk-0"),
    ] {
        let clone = vmid + 1;
        let vm = format!("/nodes/pve/qemu/{vmid}");
        let create = format!("vmid={vmid}&scsi0={}", disk.replace('=', "%3D"));
        assert_eq!(task(&lab, "POST", "/nodes/pve/qemu", &create), "OK");
        assert_eq!(task(&lab, "POST", &format!("{vm}/template"), ""), "OK");
        assert_eq!(task(&lab, "POST", &format!("{vm}/clone"), &format!("newid={clone}")), "OK");
        assert_eq!(
            task(&lab, "DELETE", &vm, ""),
            format!("base volume '{storage}:{base}' is still in use by linked cloned")
        );
        let volume = format!("/nodes/pve/storage/{storage}/content/{}", base.replace('/', "%2F"));
        assert_eq!(
            task(&lab, "DELETE", &volume, ""),
            format!("base volume '{base}' is still in use by linked clones")
        );
        assert_eq!(task(&lab, "DELETE", &format!("/nodes/pve/qemu/{clone}"), ""), "OK");
        assert_eq!(task(&lab, "DELETE", &vm, ""), "OK");
        assert_eq!(data(&lab, &format!("/nodes/pve/storage/{storage}/content")), json!([]));
    }
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu", "vmid=108&scsi0=thin:1"), "OK");
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu/108/template", ""), "OK");
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu/108/clone", "newid=109"), "OK");
    assert_eq!(task(&lab, "DELETE", "/nodes/pve/qemu/108", ""), "OK");
    lab.stop();
}

/// Proxmox checks the script only at changes and starts. At the creation of a VM, it accepts any script (vector create-337).
#[test]
fn a_hook_script_must_be_an_executable_snippet() {
    let lab = TestLab::start(scenario(
        "
storages:
  - {storage: local, type: dir, path: /var/lib/vz, content: 'iso,images'}
volumes:
  - {volid: 'local:snippets/hook.sh', text: '#!/bin/sh', executable: true}
  - {volid: 'local:snippets/user.yaml', text: '#cloud-config'}
  - {volid: 'local:iso/a.iso', size: 1MiB}
vms: [{vmid: 100, config: {name: a}}]
",
    ));
    let set = |script: &str| {
        as_root(&lab, "PUT", "/nodes/pve/qemu/100/config", &format!("hookscript={script}"))
    };
    for (script, text) in [
        ("local:snippets/none.sh", "script 'local:snippets/none.sh' does not exist\n"),
        ("local:snippets/user.yaml", "script 'local:snippets/user.yaml' is not executable\n"),
        ("local:iso/a.iso", "'local:iso/a.iso' is not in the snippets directory\n"),
        ("ghost:snippets/a.sh", "storage 'ghost' does not exist\n"),
    ] {
        let answer = set(script);
        assert_eq!(answer.line(), (400, "Parameter verification failed."), "{script}");
        assert_eq!(answer.json()["errors"], json!({"hookscript": text}));
    }
    // The script is checked before the privileges of the caller.
    let token =
        lab.request("PUT", "/nodes/pve/qemu/100/config", FORM, "hookscript=local:iso/a.iso");
    assert_eq!(token.status, 400);
    let token =
        lab.request("PUT", "/nodes/pve/qemu/100/config", FORM, "hookscript=local:snippets/hook.sh");
    assert_eq!(token.line(), (500, "only root can set 'hookscript' config"));
    assert_eq!(set("local:snippets/hook.sh").status, 200);
    assert_eq!(data(&lab, "/nodes/pve/qemu/100/config")["hookscript"], "local:snippets/hook.sh");
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu/100/status/start", ""), "OK");

    let made =
        as_root(&lab, "POST", "/nodes/pve/qemu", "vmid=101&hookscript=local:snippets/none.pl");
    assert_eq!(outcome(&lab, &made), "OK");
    assert_eq!(
        task(&lab, "POST", "/nodes/pve/qemu/101/status/start", ""),
        "hookscript error for 101 on pre-start: script 'local:snippets/none.pl' does not exist"
    );
    lab.stop();
}

/// The API rejects a second cloud-init drive, but a config file that was edited manually may contain one. Every drive is
/// written, in the order IDE, SCSI, VirtIO, SATA.
#[test]
fn each_of_two_cloud_init_drives_is_written() {
    let lab = TestLab::start(scenario(
        "
storages:
  - {storage: one, type: lvmthin, vgname: pve, thinpool: one, content: images}
  - {storage: two, type: lvmthin, vgname: pve, thinpool: two, content: images}
vms:
  - vmid: 100
    config:
      name: a
      sata0: 'one:vm-100-cloudinit,media=cdrom'
      scsi5: 'two:vm-100-cloudinit,media=cdrom'
",
    ));
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu/100/status/start", ""), "OK");
    for storage in ["one", "two"] {
        let volumes = data(&lab, &format!("/nodes/pve/storage/{storage}/content"));
        assert_eq!(volumes[0]["volid"], format!("{storage}:vm-100-cloudinit"));
    }
    let tasks = data(&lab, "/nodes/pve/tasks?typefilter=qmstart");
    let upid = tasks[0]["upid"].as_str().unwrap();
    let log = data(&lab, &format!("/nodes/pve/tasks/{upid}/log"));
    let lines = log.as_array().unwrap().iter();
    let written = lines.filter(|line| line["t"] == "generating cloud-init ISO").count();
    assert_eq!(written, 2, "{log}");
    let answer = lab.request("PUT", "/nodes/pve/qemu/100/config", FORM, "ide2=one:cloudinit");
    let text = "ide2 - cloud-init drive is already attached at 'scsi5'";
    assert!(answer.text().contains(text), "{}", answer.text());
    lab.stop();
}

#[test]
fn a_balloon_of_zero_is_kept() {
    let lab = TestLab::new();
    let create = "vmid=100&memory=2048&balloon=0";
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu", create), "OK");
    let vm = "/nodes/pve/qemu/100";
    assert_eq!(data(&lab, &format!("{vm}/config"))["balloon"], 0);
    // The VM runs without a balloon device, so a new value takes effect only at the next start.
    assert_eq!(task(&lab, "POST", &format!("{vm}/status/start"), ""), "OK");
    let config = format!("{vm}/config");
    assert_eq!(lab.request("PUT", &config, FORM, "balloon=1024").status, 200);
    let pending = data(&lab, &format!("{vm}/pending"));
    let entry = pending.as_array().unwrap().iter().find(|entry| entry["key"] == "balloon");
    assert_eq!(*entry.unwrap(), json!({"key": "balloon", "value": 0, "pending": 1024}));
    assert_eq!(lab.request("PUT", &config, FORM, "balloon=0").status, 200);
    assert_eq!(data(&lab, &format!("{vm}/config?current=1"))["balloon"], 0);
    lab.stop();
}

#[test]
fn block_statistics_list_attached_drives() {
    let lab = TestLab::new();
    let create = "vmid=100&scsi0=local-lvm:1&scsi1=local-lvm:1&sata0=local-lvm:1";
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu", create), "OK");
    assert_eq!(task(&lab, "POST", "/nodes/pve/qemu/100/status/start", ""), "OK");
    let drives = || {
        let status = data(&lab, "/nodes/pve/qemu/100/status/current");
        let mut drives: Vec<_> = status["blockstat"].as_object().unwrap().keys().cloned().collect();
        drives.sort();
        drives
    };
    let set = |form: &str| {
        let answer = lab.request("PUT", "/nodes/pve/qemu/100/config", FORM, form);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    assert_eq!(drives(), ["sata0", "scsi0", "scsi1"]);
    set("delete=scsi1");
    assert_eq!(drives(), ["sata0", "scsi0"]);
    set("scsi2=local-lvm:1");
    assert_eq!(drives(), ["sata0", "scsi0", "scsi2"]);
    // A SATA drive cannot be unplugged from a running VM.
    set("delete=sata0");
    assert_eq!(drives(), ["sata0", "scsi0", "scsi2"]);
    lab.stop();
}

/// The default of `nameserver` and the default of `searchdomain` each come from the resolv.conf of the host.
#[test]
fn a_cloud_init_drive_without_resolver_uses_that_of_its_host() {
    let lab = TestLab::start(scenario(
        "
nodes:
  - {name: pve1, dns: [10.0.0.53, 9.9.9.9], search: home.example lan}
  - pve2
vms:
  - {vmid: 100, node: pve1, config: {net0: 'virtio=BC:24:11:00:00:01,bridge=vmbr0', ipconfig0: ip=dhcp}}
  - {vmid: 101, node: pve1, config: {nameserver: 1.1.1.1}}
  - {vmid: 102, node: pve1, config: {searchdomain: own.example}}
  - {vmid: 103, node: pve2, config: {name: a}}
",
    ));
    let resolver = |node: &str, vmid: u32| {
        let dump = data(&lab, &format!("/nodes/{node}/qemu/{vmid}/cloudinit/dump?type=network"));
        let (_, rest) = dump.as_str().unwrap().split_once("- type: nameserver\n").unwrap();
        rest.split_whitespace().filter(|word| *word != "-").collect::<Vec<_>>().join(" ")
    };
    let of_host = "address: '10.0.0.53' '9.9.9.9' search: 'home.example' 'lan'";
    assert_eq!(resolver("pve1", 100), of_host);
    assert_eq!(resolver("pve1", 101), "address: '1.1.1.1' search: 'home.example' 'lan'");
    assert_eq!(resolver("pve1", 102), "address: '10.0.0.53' '9.9.9.9' search: 'own.example'");
    // A host without DNS settings uses its router.
    assert_eq!(resolver("pve2", 103), "address: '10.0.0.1' search: 'lan'");
    assert_eq!(data(&lab, "/nodes/pve2/dns"), json!({"search": "lan", "dns1": "10.0.0.1"}));
    assert_eq!(
        data(&lab, "/nodes/pve1/dns"),
        json!({"search": "home.example lan", "dns1": "10.0.0.53", "dns2": "9.9.9.9"})
    );
    lab.stop();
}

/// A name is shown if the PCI id list of the host contains it. With `verbose=0`, only ids are shown.
#[test]
fn pci_devices_show_their_subsystem() {
    let lab = TestLab::start(scenario(
        "
nodes:
  - name: pve
    pci:
      - address: '0000:01:00.0'
        vendor: '0x10de'
        device: '0x2204'
        subsystem_vendor: '0x1043'
        subsystem_device: '0x87d9'
        subsystem_vendor_name: ASUSTeK Computer Inc.
        subsystem_device_name: TUF RTX 3090
      - {address: '0000:02:00.0', vendor: '0x8086', device: '0x1572'}
",
    ));
    let devices = data(&lab, "/nodes/pve/hardware/pci");
    let keys =
        ["subsystem_vendor", "subsystem_device", "subsystem_vendor_name", "subsystem_device_name"];
    let shown = keys.map(|key| devices[0][key].as_str().unwrap());
    assert_eq!(shown, ["0x1043", "0x87d9", "ASUSTeK Computer Inc.", "TUF RTX 3090"]);
    assert!(keys.iter().all(|key| devices[1].get(key).is_none()), "{devices}");
    let brief = data(&lab, "/nodes/pve/hardware/pci?verbose=0");
    assert!(keys.iter().all(|key| brief[0].get(key).is_none()), "{brief}");
    lab.stop();
}
