//! Tests of parsing and printing property strings.

use super::super::value_format::Startup;
use super::super::{Format, FormatName, ValueKind, format, vm_option};
use crate::Release::{V8, V9};

fn of(name: FormatName) -> &'static Format {
    format(V9, name)
}

/// Parses a property string, and prints the result.
fn reprinted(name: FormatName, text: &str) -> String {
    let format = of(name);
    format.print(&format.parse(text).unwrap())
}

#[test]
fn printed_keys_are_sorted_after_the_default_key() {
    let cases = [
        (
            FormatName::Net,
            "tag=40,bridge=vmbr0,model=virtio,macaddr=BC:24:11:00:00:01,firewall=on",
            "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,tag=40",
        ),
        (
            FormatName::Net,
            "bridge=vmbr0,e1000=02:00:00:00:00:01",
            "e1000=02:00:00:00:00:01,bridge=vmbr0",
        ),
        (FormatName::Net, "model=virtio", "virtio"),
        (
            FormatName::Scsi,
            "ssd=on,volume=local-lvm:vm-100-disk-0,size=10240M,,discard=on,",
            "local-lvm:vm-100-disk-0,discard=on,size=10G,ssd=1",
        ),
        (FormatName::HostPci, "x-vga=1,mapping=gpu,pcie=yes", "mapping=gpu,pcie=1,x-vga=1"),
        (FormatName::Numa, "memory=512,cpus=0-1", "cpus=0-1,memory=512"),
        (FormatName::Tdx, "vsock-port=1,tdx,attestation=0", "tdx,attestation=0,vsock-port=1"),
        (FormatName::Machine, "type=q35,viommu=virtio", "q35,viommu=virtio"),
        (FormatName::Agent, "enabled=1,guest-fsfreeze=0", "1,freeze-fs=0"),
        (
            FormatName::Smbios1,
            "uuid=00000000-0000-0000-0000-000000000000,base64=1,serial=YQ==",
            "base64=1,serial=YQ==,uuid=00000000-0000-0000-0000-000000000000",
        ),
    ];
    for (name, text, expected) in cases {
        assert_eq!(reprinted(name, text), expected);
    }
}

#[test]
fn fields_can_be_read_and_changed() {
    let format = of(FormatName::Scsi);
    let mut drive = format.parse("local-lvm:8,iothread=on,queues=4").unwrap();
    assert_eq!(drive.get("file"), Some("local-lvm:8"));
    assert_eq!((drive.flag("iothread"), drive.number("queues")), (Some(true), Some(4)));
    drive.set("file", "local-lvm:vm-100-disk-0");
    drive.set("size", (8_u64 << 30).to_string());
    assert_eq!(drive.remove("queues").as_deref(), Some("4"));
    assert!(!drive.has("queues"));
    assert_eq!(format.print(&drive), "local-lvm:vm-100-disk-0,iothread=1,size=8G");
}

#[test]
fn value_without_key_can_only_replace_zero() {
    let format = of(FormatName::Agent);
    assert_eq!(format.parse("enabled=0,1").unwrap().flag("enabled"), Some(true));
    assert!(format.parse("enabled=1,1").is_err());
    assert!(format.parse("1,enabled=1").is_err());
}

#[test]
fn errors_without_option_name_only_the_key() {
    let complaint = of(FormatName::Scsi).parse("local:8,bogus=1").unwrap_err().to_string();
    assert!(complaint.starts_with("format error\nbogus: property is not defined"), "{complaint}");
}

#[test]
fn vm_options_are_found_by_name() {
    let kind = |key| vm_option(V9, key).map(|option| option.kind);
    assert_eq!(kind("cores"), Some(ValueKind::Integer));
    assert_eq!(kind("onboot"), Some(ValueKind::Flag));
    assert_eq!(kind("cpulimit"), Some(ValueKind::Number));
    assert_eq!(kind("memory"), Some(ValueKind::Text));
    assert_eq!(kind("snaptime"), Some(ValueKind::Integer));
    for key in ["nosuch", "vmid", "pool", "start", "scsi31", "scsi00", "digest", "net", "unused256"]
    {
        assert_eq!(kind(key), None, "{key}");
    }
    let by_callers = ["scsi30", "numa", "numa7", "cdrom", "lock", "template", "unused255"];
    let by_operations = ["meta", "parent", "vmstate"];
    for key in by_callers.into_iter().chain(by_operations) {
        assert!(vm_option(V9, key).is_some(), "{key}");
    }
    assert!(vm_option(V9, "boot").unwrap().accepts(" "));
    assert!(!vm_option(V9, "sshkeys").unwrap().accepts(" "));
    assert!(vm_option(V9, "scsi3").unwrap().format.unwrap().parse("local:8,ssd=1").is_ok());
    assert!(vm_option(V8, "allow-ksm").is_none() && vm_option(V9, "allow-ksm").is_some());
}

#[test]
fn startup_order_is_parsed() {
    let startup = Startup::parse("order=2,down=60,up=30").unwrap();
    assert_eq!((startup.order, startup.up, startup.down), (Some(2), Some(30), Some(60)));
    assert_eq!(Startup::parse("3").unwrap().order, Some(3));
    for text in ["", "0", "order=order=1", "x", "up=", "1 2"] {
        assert_eq!(Startup::parse(text), None, "{text}");
    }
}
