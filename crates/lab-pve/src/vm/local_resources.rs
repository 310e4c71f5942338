//! Resources that tie a VM to its host: local devices, and mappings that other hosts may not have.

use std::collections::BTreeMap;

use crate::pve_state::{Config, Mapping, PveState};
use crate::schema::{self, FormatName};

/// Devices of a VM that do not migrate with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalResources {
    /// Options that prevent a migration.
    pub(crate) blocking: Vec<String>,
    pub(crate) mapped: BTreeMap<String, MappedDevice>,
    /// For each host, the options whose mapping is missing on that host.
    pub(crate) missing: BTreeMap<String, Vec<String>>,
}

/// Device that a VM uses through a resource mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedDevice {
    pub(crate) name: String,
    /// Whether the device supports live migration.
    pub(crate) live: bool,
}

impl LocalResources {
    pub(crate) fn of(pve_state: &PveState, config: &Config, running: bool) -> Self {
        let mut found = Self::default();
        for host in pve_state.hosts.keys() {
            found.missing.insert(host.clone(), vec![]);
        }
        if running {
            found.blocking.extend(state_blockers(config).into_iter().map(str::to_owned));
        }
        if config.contains_key("ivshmem") {
            found.blocking.push("ivshmem".to_owned());
        }
        for (key, value) in config {
            let kind = key.trim_end_matches(|c: char| c.is_ascii_digit());
            if kind != key {
                found.add_device(pve_state, key, kind, value, running);
            }
        }
        found
    }

    /// Options that prevent a migration and do not use a mapping.
    pub(crate) fn unmapped(&self) -> Vec<&str> {
        let mapped = |key: &&String| !self.mapped.contains_key(*key);
        self.blocking.iter().filter(mapped).map(String::as_str).collect()
    }

    fn add_device(
        &mut self,
        pve_state: &PveState,
        key: &str,
        kind: &str,
        value: &str,
        running: bool,
    ) {
        let field = |format, name: &str| {
            let fields = schema::format(pve_state.release, format).parse(value).unwrap_or_default();
            fields.get(name).map(str::to_owned)
        };
        match kind {
            "usb" => {
                let host = field(FormatName::Usb, "host");
                if host.is_some_and(|host| host.eq_ignore_ascii_case("spice")) {
                    return;
                }
                if let Some(name) = field(FormatName::Usb, "mapping") {
                    self.note_mapping(pve_state, key, pve_state.mappings.usb.get(&name));
                    self.mapped.insert(key.to_owned(), MappedDevice { name, live: false });
                }
            }
            "hostpci" => {
                if let Some(name) = field(FormatName::HostPci, "mapping") {
                    let mapping = pve_state.mappings.pci.get(&name);
                    self.note_mapping(pve_state, key, mapping);
                    let live = mapping.is_some_and(|mapping| {
                        let option = mapping.options.get("live-migration-capable");
                        option.is_some_and(|value| value == "1")
                    });
                    self.mapped.insert(key.to_owned(), MappedDevice { name, live });
                    // A stopped VM can use any device of the mapping after the migration.
                    if live || !running {
                        return;
                    }
                }
            }
            "virtiofs" => {
                let name = field(FormatName::VirtioFs, "dirid").unwrap_or_default();
                self.note_mapping(pve_state, key, None);
                self.mapped.insert(key.to_owned(), MappedDevice { name, live: false });
            }
            "serial" if value == "socket" => return,
            "serial" | "parallel" => {}
            _ => return,
        }
        self.blocking.push(key.to_owned());
    }

    fn note_mapping(&mut self, pve_state: &PveState, key: &str, mapping: Option<&Mapping>) {
        for host in pve_state.hosts.keys() {
            let is_here =
                |entry: &String| entry.split(',').any(|part| part == format!("node={host}"));
            if !mapping.is_some_and(|mapping| mapping.entries.iter().any(is_here)) {
                self.missing.entry(host.clone()).or_default().push(key.to_owned());
            }
        }
    }
}

/// Options that prevent saving or migrating the memory of a running VM.
pub(crate) fn state_blockers(config: &Config) -> Vec<&'static str> {
    let mut blockers: Vec<&str> =
        ["amd-sev", "intel-tdx"].into_iter().filter(|key| config.contains_key(*key)).collect();
    if config.keys().any(|key| key.starts_with("virtiofs")) {
        blockers.push("virtiofs");
    }
    blockers
}
