//! Scenario: the content of the simulated Proxmox cluster when the lab starts.
//!
//! A scenario is a YAML file (`docs/LAB.md`). A section that is missing gets the content of a freshly installed host. Missing
//! passwords and secrets are generated.

mod access;
mod cluster;
mod error;
mod host;
mod initial_state;
mod sdn;
mod section;
mod storage;
mod vm;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use talmox_lab_pve::Release;
use talmox_lab_pve::pve_state::{Access, Ha, Host, Mappings, Pool, Sdn, Storage};

pub(crate) use access::LAB_TOKEN;
pub use error::ScenarioError;
pub(crate) use error::nearest;
use section::{Read, Section, Source};
use storage::VolumeSpec;
use vm::VmSpec;

/// Initial content of a lab.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub release: Release,
    cluster: Option<String>,
    hosts: BTreeMap<String, Host>,
    /// Storages; `None` for the storages that the installer of the release creates.
    storages: Option<BTreeMap<String, Storage>>,
    volumes: Vec<VolumeSpec>,
    vms: BTreeMap<u32, VmSpec>,
    access: Access,
    pools: BTreeMap<String, Pool>,
    mappings: Mappings,
    ha: Ha,
    sdn: Sdn,
    datacenter: BTreeMap<String, String>,
    /// Faults of the scenario, not yet parsed.
    pub(crate) faults: Vec<FaultSpec>,
}

/// Unparsed entry of `faults`.
#[derive(Clone, Debug)]
pub(crate) struct FaultSpec {
    pub(crate) path: String,
    /// Line of the entry in the scenario file.
    pub(crate) line: usize,
    pub(crate) value: Json,
}

const KEYS: [&str; 13] = [
    "release",
    "cluster",
    "nodes",
    "storages",
    "volumes",
    "vms",
    "access",
    "mappings",
    "pools",
    "datacenter",
    "ha",
    "sdn",
    "faults",
];

impl Scenario {
    /// Parses a scenario file. `path` is the name of the file in messages.
    pub fn parse(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { path, text };
        let documents =
            talmox_yaml::read(text).map_err(|error| source.error(error.span, error.to_string()))?;
        let root = match documents.as_slice() {
            [] => return Ok(Self::default()),
            [root] if root.is_null() => return Ok(Self::default()),
            [root] => root,
            [_, second, ..] => {
                return Err(source.error(second.span, "a scenario is one document, not several"));
            }
        };
        let section = Section::open(source, root, "the scenario", &KEYS)?;
        let release = release(&section)?;
        let hosts = host::read(&section)?;
        let storages = storage::read(&section, &hosts)?;
        let usual = storage::default(release);
        let known = storages.as_ref().unwrap_or(&usual);
        let volumes = storage::read_volumes(&section, known, &hosts)?;
        let vms = vm::read(&section, &hosts)?;
        let several = hosts.len() > 1;
        Ok(Self {
            release,
            cluster: section.text("cluster")?.or_else(|| several.then(|| "lab".to_owned())),
            pools: cluster::pools(&section)?,
            mappings: cluster::mappings(&section)?,
            ha: cluster::ha(&section, release)?,
            sdn: sdn::read(&section)?,
            datacenter: cluster::datacenter(&section)?,
            access: access::read(&section)?,
            faults: cluster::faults(&section)?,
            hosts,
            storages,
            volumes,
            vms,
        })
    }

    /// Names of the hosts of the scenario.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.hosts.keys().cloned().collect()
    }

    pub(crate) fn has_token(&self, id: &str) -> bool {
        self.access.tokens.contains_key(id)
    }

    /// Returns the scenario with another release of Proxmox VE.
    #[must_use]
    pub fn with_release(self, release: Release) -> Self {
        Self { release, ..self }
    }
}

impl Default for Scenario {
    /// Scenario with one host that has the defaults of the Proxmox installer.
    fn default() -> Self {
        Self {
            release: Release::default(),
            cluster: None,
            storages: None,
            hosts: host::default(),
            volumes: vec![],
            vms: BTreeMap::new(),
            access: access::default(),
            pools: BTreeMap::new(),
            mappings: Mappings::default(),
            ha: Ha::default(),
            sdn: Sdn::default(),
            datacenter: BTreeMap::new(),
            faults: vec![],
        }
    }
}

fn release(section: &Section<'_>) -> Read<Release> {
    match section.text("release")?.as_deref() {
        None => Ok(Release::default()),
        Some("9.2" | "9") => Ok(Release::V9),
        Some("8.4" | "8") => Ok(Release::V8),
        Some(other) => Err(section
            .error("release", format!("the lab does not simulate Proxmox VE {other}"))
            .hint("known: 9.2, 8.4")),
    }
}

#[cfg(test)]
mod tests;
