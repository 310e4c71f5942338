//! How values of each option are compared: what Proxmox stores is rarely what was sent.

/// What a value is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// A number; absent is this one, if Proxmox has one for it.
    Number(Option<u64>),
    /// A flag; absent is this.
    Flag(bool),
    /// A text; absent is this.
    Text(&'static str),
    /// A text whose end does not matter.
    Description,
    /// Names without order or case.
    Set,
    /// What is hotplugged: names without order, or 1 for the usual ones, or 0 for none.
    Hotplug,
    /// Names in order, with anything between.
    List,
    Boot,
    Net,
    Drive(DriveParts),
    Smbios,
    Parts(Parts),
    /// Never shown as it was sent.
    Hidden,
}

/// The property string of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveParts {
    /// Whether it keeps the state of firmware or TPM, whose size is nobody's choice.
    pub(super) is_state: bool,
    pub(super) parts: Parts,
}

/// A property string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// The key of the value that stands without one.
    pub(super) default_key: Option<&'static str>,
    /// What is meant by an absent key.
    pub(super) defaults: &'static [(&'static str, &'static str)],
}

const fn parts(
    default_key: Option<&'static str>,
    defaults: &'static [(&'static str, &'static str)],
) -> Rule {
    Rule::Parts(Parts { default_key, defaults })
}

const fn drive(is_state: bool, defaults: &'static [(&'static str, &'static str)]) -> Rule {
    Rule::Drive(DriveParts { is_state, parts: Parts { default_key: Some("file"), defaults } })
}

const DISK_DEFAULTS: &[(&str, &str)] = &[
    ("backup", "1"),
    ("cache", "none"),
    ("detect_zeroes", "1"),
    ("discard", "ignore"),
    ("iothread", "0"),
    ("media", "disk"),
    ("replicate", "1"),
    ("ro", "0"),
    ("shared", "0"),
    ("snapshot", "0"),
    ("ssd", "0"),
];

pub(super) const NET_DEFAULTS: &[(&str, &str)] = &[("firewall", "0"), ("link_down", "0")];

/// The rule for an option.
pub(super) fn of(key: &str) -> Rule {
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "efidisk" => return drive(true, &[("efitype", "2m"), ("pre-enrolled-keys", "0")]),
        "tpmstate" => return drive(true, &[("version", "v1.2")]),
        "ide" | "sata" | "scsi" | "virtio" | "unused" => return drive(false, DISK_DEFAULTS),
        "net" => return Rule::Net,
        "smbios" => return Rule::Smbios,
        "ipconfig" => return parts(None, &[]),
        "hostpci" => {
            return parts(
                Some("host"),
                &[("legacy-igd", "0"), ("pcie", "0"), ("rombar", "1"), ("x-vga", "0")],
            );
        }
        "rng" => return parts(Some("source"), &[("max_bytes", "1024"), ("period", "1000")]),
        _ => {}
    }
    match key {
        "cores" | "sockets" => Rule::Number(Some(1)),
        "balloon" | "cpuunits" | "cpulimit" | "vcpus" | "shares" => Rule::Number(None),
        "autostart" | "numa" | "onboot" | "protection" | "template" => Rule::Flag(false),
        "acpi" | "ciupgrade" | "kvm" | "reboot" | "tablet" => Rule::Flag(true),
        "memory" => parts(Some("current"), &[]),
        "description" => Rule::Description,
        "tags" => Rule::Set,
        "hotplug" => Rule::Hotplug,
        "nameserver" | "searchdomain" => Rule::List,
        "boot" => Rule::Boot,
        "machine" => parts(Some("type"), &[]),
        "cpu" => parts(Some("cputype"), &[("cputype", "kvm64"), ("hidden", "0")]),
        "vga" => parts(Some("type"), &[("type", "std")]),
        "agent" => parts(
            Some("enabled"),
            &[
                ("enabled", "0"),
                ("freeze-fs-on-backup", "1"),
                ("fstrim_cloned_disks", "0"),
                ("type", "virtio"),
            ],
        ),
        "startup" => parts(Some("order"), &[]),
        "bios" => Rule::Text("seabios"),
        "ostype" => Rule::Text("other"),
        "scsihw" => Rule::Text("lsi"),
        "cipassword" => Rule::Hidden,
        _ => Rule::Text(""),
    }
}
