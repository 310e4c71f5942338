//! The scenario: what the simulated cluster consists of when the lab starts.
//!
//! A scenario is read from a file of its own (`docs/LAB.md`); the parts that the file leaves out
//! are those of a freshly installed host. Passwords and secrets that nobody gave are drawn by chance.

mod access;
mod cluster;
mod error;
mod host;
mod sdn;
mod section;
mod storage;
mod vm;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use talmox_lab_pve::Release;
use talmox_lab_pve::world::{Access, Ha, Host, Mappings, Pool, Sdn, Storage};

pub(crate) use access::LAB_TOKEN;
pub use error::ScenarioError;
pub(crate) use error::nearest;
use section::{Read, Section, Source};
use storage::VolumeSpec;
use vm::VmSpec;

/// What the lab starts with.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub release: Release,
    cluster: Option<String>,
    hosts: BTreeMap<String, Host>,
    /// None: as the installer of the release makes them.
    storages: Option<BTreeMap<String, Storage>>,
    volumes: Vec<VolumeSpec>,
    vms: BTreeMap<u32, VmSpec>,
    access: Access,
    pools: BTreeMap<String, Pool>,
    mappings: Mappings,
    ha: Ha,
    sdn: Sdn,
    datacenter: BTreeMap<String, String>,
    /// What goes wrong, as the file has it.
    pub(crate) faults: Vec<FaultSpec>,
}

/// One entry of `faults`, not yet understood.
#[derive(Clone, Debug)]
pub(crate) struct FaultSpec {
    pub(crate) path: String,
    /// Where it stands in the file.
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
    /// Reads a scenario file; `path` is what messages call it.
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

    /// The names of its hosts.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.hosts.keys().cloned().collect()
    }

    pub(crate) fn has_token(&self, id: &str) -> bool {
        self.access.tokens.contains_key(id)
    }

    /// The same machines with another Proxmox VE on them.
    #[must_use]
    pub fn with_release(self, release: Release) -> Self {
        Self { release, ..self }
    }
}

impl Default for Scenario {
    /// One host as the installer leaves it.
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
            .error("release", format!("the lab has no release `{other}`"))
            .hint("known are 9.2 and 8.4")),
    }
}

#[cfg(test)]
mod tests;
