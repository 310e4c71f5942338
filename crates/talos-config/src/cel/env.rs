//! What expressions may look at: the variables of each place where Talos takes one.

use super::link::LINK;
use super::types::Type;

/// The variables and functions of a place.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: Vec<(&'static str, Type)>,
    extras: &'static [Extra],
}

/// Functions beyond CEL's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// `glob(pattern, text)`.
    Glob,
    /// `mac(bytes)`.
    Mac,
    /// `multiply_qos_vectors(map, map)`.
    Qos,
    /// Optional values: `hasValue`, `orValue`…
    Optional,
}

/// A message's fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, Kind)],
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Text,
    Bytes,
    Texts,
    Duration,
    Message(&'static Message),
    Messages(&'static Message),
}

impl Environment {
    pub(super) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(variable, _)| *variable == name).map(|(_, ty)| ty)
    }

    pub(super) fn has(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    fn of(variables: Vec<(&'static str, Type)>) -> Self {
        Self { variables, extras: &[] }
    }

    fn with_units(mut self) -> Self {
        let units = UNITS.iter().map(|(unit, _)| (*unit, Type::Uint));
        self.variables.extend(units);
        self
    }

    fn with_classes(mut self) -> Self {
        let classes = CLASSES.iter().map(|class| (*class, Type::Int));
        self.variables.extend(classes);
        self
    }

    /// Selectors of disks.
    pub(crate) fn disk() -> Self {
        let variables = vec![("disk", Type::Message(&DISK)), ("system_disk", Type::Bool)];
        Self { extras: &[Extra::Glob], ..Self::of(variables).with_units() }
    }

    /// Selectors of volumes that exist.
    pub(crate) fn volume() -> Self {
        let variables = vec![("volume", Type::Message(&VOLUME)), ("disk", Type::Message(&DISK))];
        Self::of(variables).with_units()
    }

    /// Selectors of network links.
    pub(crate) fn link() -> Self {
        Self {
            extras: &[Extra::Glob, Extra::Mac],
            ..Self::of(vec![("link", Type::Message(&LINK))])
        }
    }

    /// When to act on memory pressure.
    pub(crate) fn oom_trigger() -> Self {
        let by_class = || Type::Map(Box::new(Type::Int), Box::new(Type::Double));
        let mut variables = vec![("time_since_trigger", Type::Duration)];
        variables.extend(PRESSURE.iter().map(|name| (*name, Type::Double)));
        variables.extend(PRESSURE_BY_CLASS.iter().map(|name| (*name, by_class())));
        Self {
            extras: &[Extra::Qos, Extra::Optional],
            ..Self::of(variables).with_units().with_classes()
        }
    }

    /// What to kill first.
    pub(crate) fn oom_ranking() -> Self {
        let optional = || Type::Optional(Box::new(Type::Uint));
        let variables = vec![
            ("memory_max", optional()),
            ("memory_current", optional()),
            ("memory_peak", optional()),
            ("path", Type::Text),
            ("class", Type::Int),
        ];
        Self { extras: &[Extra::Optional], ..Self::of(variables).with_units().with_classes() }
    }
}

/// Units of sizes, and how many bytes they have.
pub(super) const UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("EiB", 1 << 60),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("EB", 1_000_000_000_000_000_000),
];

const CLASSES: &[&str] = &["Besteffort", "Burstable", "Guaranteed", "Podruntime", "System"];

const PRESSURE: &[&str] = &[
    "memory_some_avg10",
    "memory_some_avg60",
    "memory_some_avg300",
    "memory_some_total",
    "memory_full_avg10",
    "memory_full_avg60",
    "memory_full_avg300",
    "memory_full_total",
    "d_memory_some_avg10",
    "d_memory_some_avg60",
    "d_memory_some_avg300",
    "d_memory_some_total",
    "d_memory_full_avg10",
    "d_memory_full_avg60",
    "d_memory_full_avg300",
    "d_memory_full_total",
];

const PRESSURE_BY_CLASS: &[&str] = &[
    "qos_memory_some_avg10",
    "qos_memory_some_avg60",
    "qos_memory_some_avg300",
    "qos_memory_some_total",
    "qos_memory_full_avg10",
    "qos_memory_full_avg60",
    "qos_memory_full_avg300",
    "qos_memory_full_total",
    "d_qos_memory_some_avg10",
    "d_qos_memory_some_avg60",
    "d_qos_memory_some_avg300",
    "d_qos_memory_some_total",
    "d_qos_memory_full_avg10",
    "d_qos_memory_full_avg60",
    "d_qos_memory_full_avg300",
    "d_qos_memory_full_total",
    "qos_memory_current",
    "qos_memory_peak",
    "qos_memory_max",
    "d_qos_memory_current",
    "d_qos_memory_peak",
    "d_qos_memory_max",
];

static DISK: Message = Message {
    name: "talos.resource.definitions.block.DiskSpec",
    fields: &[
        ("size", Kind::Uint),
        ("io_size", Kind::Uint),
        ("sector_size", Kind::Uint),
        ("readonly", Kind::Bool),
        ("model", Kind::Text),
        ("serial", Kind::Text),
        ("modalias", Kind::Text),
        ("wwid", Kind::Text),
        ("bus_path", Kind::Text),
        ("sub_system", Kind::Text),
        ("transport", Kind::Text),
        ("rotational", Kind::Bool),
        ("cdrom", Kind::Bool),
        ("dev_path", Kind::Text),
        ("pretty_size", Kind::Text),
        ("secondary_disks", Kind::Texts),
        ("uuid", Kind::Text),
        ("symlinks", Kind::Texts),
    ],
};

static VOLUME: Message = Message {
    name: "talos.resource.definitions.block.DiscoveredVolumeSpec",
    fields: &[
        ("size", Kind::Uint),
        ("sector_size", Kind::Uint),
        ("io_size", Kind::Uint),
        ("name", Kind::Text),
        ("uuid", Kind::Text),
        ("label", Kind::Text),
        ("block_size", Kind::Uint),
        ("filesystem_block_size", Kind::Uint),
        ("probed_size", Kind::Uint),
        ("partition_uuid", Kind::Text),
        ("partition_type", Kind::Text),
        ("partition_label", Kind::Text),
        ("partition_index", Kind::Uint),
        ("type", Kind::Text),
        ("device_path", Kind::Text),
        ("parent", Kind::Text),
        ("dev_path", Kind::Text),
        ("parent_dev_path", Kind::Text),
        ("pretty_size", Kind::Text),
        ("offset", Kind::Uint),
    ],
};
