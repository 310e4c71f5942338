//! Rules for comparing VM options. They are needed because Proxmox rarely stores a value exactly as it was sent.

/// Rule for comparing the values of an option.
#[derive(Clone, Copy, Debug)]
pub(super) enum ComparisonRule {
    /// Number. If Proxmox has a default, an absent value equals this default.
    Number(Option<u64>),
    /// Flag. An absent value equals this default.
    Flag(bool),
    /// Text. An absent value equals this default.
    Text(&'static str),
    /// Text. Trailing white space is ignored.
    Description,
    /// Set of names. Order and case are ignored.
    Set,
    /// Hotplug classes: names in any order, `1` for the default classes, or `0` for none.
    Hotplug,
    /// List of names. The order matters, the separator does not.
    List,
    Boot,
    Net,
    Drive(DriveParts),
    Smbios,
    Parts(Parts),
    /// Value that Proxmox does not return as it was sent, so it cannot be compared.
    Hidden,
}

/// Rule for comparing the property string of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriveParts {
    /// Whether the drive holds the state of the firmware or of the TPM. Proxmox chooses the size of such a drive.
    pub(super) is_state: bool,
    pub(super) parts: Parts,
}

/// Rule for comparing a property string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Key of the value that may be written without a key.
    pub(super) default_key: Option<&'static str>,
    /// Values of absent keys.
    pub(super) defaults: &'static [(&'static str, &'static str)],
}

const fn parts(
    default_key: Option<&'static str>,
    defaults: &'static [(&'static str, &'static str)],
) -> ComparisonRule {
    ComparisonRule::Parts(Parts { default_key, defaults })
}

const fn drive(
    is_state: bool,
    defaults: &'static [(&'static str, &'static str)],
) -> ComparisonRule {
    ComparisonRule::Drive(DriveParts {
        is_state,
        parts: Parts { default_key: Some("file"), defaults },
    })
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

/// Rule for comparing the values of the option `key`.
pub(super) fn of(key: &str) -> ComparisonRule {
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "efidisk" => return drive(true, &[("efitype", "2m"), ("pre-enrolled-keys", "0")]),
        "tpmstate" => return drive(true, &[("version", "v1.2")]),
        "ide" | "sata" | "scsi" | "virtio" | "unused" => return drive(false, DISK_DEFAULTS),
        "net" => return ComparisonRule::Net,
        "smbios" => return ComparisonRule::Smbios,
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
        "cores" | "sockets" => ComparisonRule::Number(Some(1)),
        "balloon" | "cpuunits" | "cpulimit" | "vcpus" | "shares" => ComparisonRule::Number(None),
        "autostart" | "numa" | "onboot" | "protection" | "template" => ComparisonRule::Flag(false),
        "acpi" | "ciupgrade" | "kvm" | "reboot" | "tablet" => ComparisonRule::Flag(true),
        "memory" => parts(Some("current"), &[]),
        "description" => ComparisonRule::Description,
        "tags" => ComparisonRule::Set,
        "hotplug" => ComparisonRule::Hotplug,
        "nameserver" | "searchdomain" => ComparisonRule::List,
        "boot" => ComparisonRule::Boot,
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
        "bios" => ComparisonRule::Text("seabios"),
        "ostype" => ComparisonRule::Text("other"),
        "scsihw" => ComparisonRule::Text("lsi"),
        "cipassword" => ComparisonRule::Hidden,
        _ => ComparisonRule::Text(""),
    }
}
