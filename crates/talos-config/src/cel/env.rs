//! Variables and functions that an expression can use. They differ between the fields that contain expressions.

use super::link::LINK;
use super::types::CelType;

/// Variables and functions that an expression can use.
#[derive(Debug)]
pub(crate) struct Environment {
    variables: Vec<(&'static str, CelType)>,
    extras: &'static [Extra],
}

/// Functions that are not part of CEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// `glob(pattern, text)`.
    Glob,
    /// `mac(bytes)`.
    Mac,
    /// `multiply_qos_vectors(map, map)`.
    Qos,
    /// Functions of optional values, such as `hasValue` and `orValue`.
    Optional,
}

/// Fields of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, FieldType)],
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
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
    pub(super) fn variable(&self, name: &str) -> Option<&CelType> {
        self.variables.iter().find(|(variable, _)| *variable == name).map(|(_, ty)| ty)
    }

    pub(super) fn has(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }

    fn of(variables: Vec<(&'static str, CelType)>) -> Self {
        Self { variables, extras: &[] }
    }

    fn with_units(mut self) -> Self {
        let units = UNITS.iter().map(|(unit, _)| (*unit, CelType::Uint));
        self.variables.extend(units);
        self
    }

    fn with_classes(mut self) -> Self {
        let classes = CLASSES.iter().map(|class| (*class, CelType::Int));
        self.variables.extend(classes);
        self
    }

    /// Environment of disk selectors.
    pub(crate) fn disk() -> Self {
        let variables = vec![("disk", CelType::Message(&DISK)), ("system_disk", CelType::Bool)];
        Self { extras: &[Extra::Glob], ..Self::of(variables).with_units() }
    }

    /// Environment of selectors of existing volumes.
    pub(crate) fn volume() -> Self {
        let variables =
            vec![("volume", CelType::Message(&VOLUME)), ("disk", CelType::Message(&DISK))];
        Self::of(variables).with_units()
    }

    /// Environment of network link selectors.
    pub(crate) fn link() -> Self {
        Self {
            extras: &[Extra::Glob, Extra::Mac],
            ..Self::of(vec![("link", CelType::Message(&LINK))])
        }
    }

    /// Environment of the trigger of the OOM handler.
    pub(crate) fn oom_trigger() -> Self {
        let by_class = || CelType::Map(Box::new(CelType::Int), Box::new(CelType::Double));
        let mut variables = vec![("time_since_trigger", CelType::Duration)];
        variables.extend(PRESSURE.iter().map(|name| (*name, CelType::Double)));
        variables.extend(PRESSURE_BY_CLASS.iter().map(|name| (*name, by_class())));
        Self {
            extras: &[Extra::Qos, Extra::Optional],
            ..Self::of(variables).with_units().with_classes()
        }
    }

    /// Environment of the ranking of the OOM handler.
    pub(crate) fn oom_ranking() -> Self {
        let optional = || CelType::Optional(Box::new(CelType::Uint));
        let variables = vec![
            ("memory_max", optional()),
            ("memory_current", optional()),
            ("memory_peak", optional()),
            ("path", CelType::Text),
            ("class", CelType::Int),
        ];
        Self { extras: &[Extra::Optional], ..Self::of(variables).with_units().with_classes() }
    }
}

/// Units of sizes, with their number of bytes.
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
        ("size", FieldType::Uint),
        ("io_size", FieldType::Uint),
        ("sector_size", FieldType::Uint),
        ("readonly", FieldType::Bool),
        ("model", FieldType::Text),
        ("serial", FieldType::Text),
        ("modalias", FieldType::Text),
        ("wwid", FieldType::Text),
        ("bus_path", FieldType::Text),
        ("sub_system", FieldType::Text),
        ("transport", FieldType::Text),
        ("rotational", FieldType::Bool),
        ("cdrom", FieldType::Bool),
        ("dev_path", FieldType::Text),
        ("pretty_size", FieldType::Text),
        ("secondary_disks", FieldType::Texts),
        ("uuid", FieldType::Text),
        ("symlinks", FieldType::Texts),
    ],
};

static VOLUME: Message = Message {
    name: "talos.resource.definitions.block.DiscoveredVolumeSpec",
    fields: &[
        ("size", FieldType::Uint),
        ("sector_size", FieldType::Uint),
        ("io_size", FieldType::Uint),
        ("name", FieldType::Text),
        ("uuid", FieldType::Text),
        ("label", FieldType::Text),
        ("block_size", FieldType::Uint),
        ("filesystem_block_size", FieldType::Uint),
        ("probed_size", FieldType::Uint),
        ("partition_uuid", FieldType::Text),
        ("partition_type", FieldType::Text),
        ("partition_label", FieldType::Text),
        ("partition_index", FieldType::Uint),
        ("type", FieldType::Text),
        ("device_path", FieldType::Text),
        ("parent", FieldType::Text),
        ("dev_path", FieldType::Text),
        ("parent_dev_path", FieldType::Text),
        ("pretty_size", FieldType::Text),
        ("offset", FieldType::Uint),
    ],
};
