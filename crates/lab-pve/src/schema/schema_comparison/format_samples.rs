//! Valid and invalid sample values of formats that Perl code checks. The schema contains only the names of these formats, so
//! the interpreter needs the samples.

use crate::Release;

/// Values that a format accepts, and values that it rejects.
pub(super) fn samples(name: &str, release: Release) -> [&'static [&'static str]; 2] {
    match name {
        "CIDR" => {
            [&["10.0.0.0/8", "10.0.0.1/24", "fd00::/64"], &["10.0.0.0", "10.0.0.0/7", "x/24"]]
        }
        "address" => [
            &["10.0.0.1", "fe80::1", "dns.lan", "a"],
            &["-a", "a..b", "a_b", "10.0.0.1/24", "::g", "ns."],
        ],
        "disk-size" => {
            [&["10G", "528K", "1.5T", "0", "4M", "1GiB"], &["10g", "G", "-1G", "1.G", "10GB"]]
        }
        "dns-name" => {
            [&["talos-cp-01", "a.b.c", "0", "A-1"], &["", "-a", "a-", "a_b", "a b", "a."]]
        }
        "email" => [&["a@b", "a.b+c@d.example"], &["a", "@b", "a@", "a b@c", "a@b_c"]],
        "ipv4" => [&["10.0.0.1", "255.255.255.255"], &["10.0.0.256", "10.0.0", "010.0.0.1", "::1"]],
        "ipv6" => [
            &["::", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1"],
            &["10.0.0.1", ":::", "1::2::3"],
        ],
        "mac-addr" => [
            &["BC:24:11:00:00:01", "02:00:00:aa:bb:cc"],
            &["01:00:5e:00:00:01", "BC:24:11:00:00", "BC-24-11-00-00-01", "BC:24:11:00:00:0g"],
        ],
        "mac-prefix" => {
            [&["BC:24:11", "02", "02:0", "02:00:00:a"], &["01", "B", "BC2411", "BC:24:11:00"]]
        }
        "pve-bridge-id" => [&["vmbr0", "vmbr0.40", "my_br-1"], &["vmbr 0", "a/b", "a:b"]],
        "pve-configid" => [&["ab", "s1", "Snap_shot-1"], &["a", "1a", "a.b", "_a", "a b"]],
        "pve-cpuset" => [&["0", "0-3", "0,4-7"], &["a", "3-1", "1-", "0;1", "-1"]],
        "pve-dir-override" => {
            [&["iso=cd/images", "backup=x"], &["iso", "iso=", "iso=..", "cd=x", "=x"]]
        }
        "pve-groupid" | "pve-roleid" => [&["a", "Admin.s_1-x"], &["a!", "a@b", "gr/oup"]],
        "pve-ha-node" | "pve-ha-group-node" => [&["pve1", "pve1:10"], &["pve1:", "-pve", "pve1:x"]],
        "pve-ha-resource-id" => [&["vm:100", "ct:x"], &["100", "VM:100", "vm:", "vm"]],
        "pve-ha-resource-or-vm-id" => [&["vm:100", "100", "1"], &["VM:100", "vm:", "vm 100", ""]],
        "pve-hotplug-features" => {
            [&["0", "1", "disk,network", "usb;cpu", ""], &["gpu", "disk,gpu", "2"]]
        }
        "pve-iface" => [&["vmbr0", "eth0.40", "eth0:1"], &["0eth", "et-h0", "e"]],
        "pve-ipv4-config" => {
            [&["dhcp", "manual", "10.0.0.11/24"], &["10.0.0.11", "auto", "10.0.0.11/33"]]
        }
        "pve-ipv6-config" => {
            [&["auto", "dhcp", "fd00::1/64"], &["fd00::1", "10.0.0.11/24", "fd00::1/129"]]
        }
        "pve-node" => [&["pve1", "a", "a-b"], &["-a", "a-", "a.b", "a_b"]],
        "pve-phys-bits" => [&["host", "8", "64"], &["7", "65", "HOST", "040"]],
        "pve-poolid" => [&["talos", "a/b/c", "a.b_c-d"], &["a/b/c/d", "a b", "/a", "a//b"]],
        "pve-priv" => match release {
            Release::V8 => {
                [&["VM.Audit", "VM.Monitor"], &["VM.GuestAgent.Audit", "vm.audit", "VM"]]
            }
            Release::V9 => {
                [&["VM.Audit", "VM.GuestAgent.Audit"], &["VM.Monitor", "vm.audit", "VM"]]
            }
        },
        "pve-qm-bootdev" => [
            &["scsi0", "net31", "usb13", "hostpci15", "ide3"],
            &["scsi31", "net32", "efidisk0", "tpmstate0", "unused0", "scsi00", "serial0"],
        ],
        // Values that only the `pattern` of the same property excludes are omitted.
        "pve-qm-bootdisk" => {
            [&["scsi0", "virtio15", "sata5", "ide3"], &["scsi31", "net0", "unused0", "ide4"]]
        }
        "pve-realm" => [&["pam", "pve", "my-realm.1"], &["p", "1a", "a b"]],
        "pve-startup-order" => {
            [&["1", "order=1,up=30,down=60", "up=1"], &["0", "", "order=", "x=1", "1;2"]]
        }
        "pve-storage-content" => {
            [&["iso", "import", "images", "none"], &["disk", "ISO", "images2"]]
        }
        "pve-storage-id" => {
            [&["local", "local-lvm", "a.b_c-1", "ab"], &["1a", "a", "a-", "lo cal", "lo:cal"]]
        }
        "pve-storage-options" => [&["vers=4.2", "a,b"], &["a b", ""]],
        "pve-storage-path" => [&["/mnt/x", "/a"], &["mnt", "", "/", "/(a"]],
        "pve-storage-portal-dns" => {
            [&["10.0.0.1", "host:3260", "[::1]:3260", "::1"], &["a b", "host:", "[::1"]]
        }
        "pve-storage-server" => [&["10.0.0.1", "nas.lan", "::1"], &["a_b", "nas/1", ""]],
        "pve-storage-vgname" => [&["pve", "data-1", "0a"], &["a", "-a", "a b"]],
        "pve-tag" => [&["talos", "A+b.c-1", "_x"], &["-a", "ä", "a/b", "a!"]],
        "pve-task-status-type" => [&["ok", "ERROR", "warning", "unknown"], &["fine", "okay"]],
        "pve-tokenid" => {
            [&["root@pam!ci", "a@pve!t-1"], &["root@pam", "root@pam!1", "root!ci", "root@pam!a"]]
        }
        "pve-userid" => {
            [&["root@pam", "talmox@pve"], &["a", "root", "ro:ot@pam", "root@p", "a/b@pam"]]
        }
        "pve-vmid" => {
            [&["100", "300", "999999999"], &["99", "0", "-100", "0100", "1000000000", "+100"]]
        }
        "pve-volume-id" => {
            [&["local:iso/x.iso", "local-lvm:8", "a1:b"], &["local", ":8", "1a:b", "local:"]]
        }
        "pve-volume-id-or-absolute-path" => [&["/dev/sda", "local:x", "/"], &["none", "x", "1:x"]],
        "pve-volume-id-or-qm-path" => [
            &["none", "cdrom", "local-lvm:8", "local:cloudinit", "/dev/sda"],
            &["x", "8", "a:8", "local:"],
        ],
        "storage-pair" => {
            [&["1", "local", "local:tank"], &["2", "lo_", "local:", "a:b:c", "local:2"]]
        }
        "string" => [&["x", "05"], &[]],
        "urlencoded" => [&["", "ssh-ed25519%20AAAA%0A", "a_b.c"], &["a b", "a+b", "a/b", "ä"]],
        other => panic!("no samples of {other}"),
    }
}
