//! Saved state of a lab: the state of the simulated Proxmox, the certificates, the keys that sign tickets, and the etcd
//! clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::Folder;
use talmox_lab_pve::pve_state::PveState;
use talmox_lab_pve::{BlobId, Blobs};
use talmox_lab_talos::{SavedCluster, Written};

use crate::Scenario;
use crate::certificate::Identity;

const PVE_STATE: &str = "world.json";
const KEYS: &str = "keys.json";
const ETCDS: &str = "etcd.json";
const TIME: &str = "time.json";
/// Version of the format of the saved state.
const FORMAT: u32 = 1;

/// Whether the directory contains a saved lab.
pub fn has_state(folder: &Path) -> bool {
    folder.join(PVE_STATE).exists()
}

/// Seed of the lab that is saved in this directory, if there is one.
pub fn saved_seed(folder: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Seeded {
        seed: u64,
    }
    let bytes = std::fs::read(folder.join(PVE_STATE)).ok()?;
    serde_json::from_slice::<Seeded>(&bytes).ok().map(|saved| saved.seed)
}

/// Lab time of the lab that is saved in this directory, in seconds since 1970.
pub fn saved_time(folder: &Path) -> Option<u64> {
    serde_json::from_slice(&std::fs::read(folder.join(TIME)).ok()?).ok()
}

/// Clock of a lab in this directory. The clock continues from the saved time and never jumps back, because lab time may have
/// been far ahead of real time.
pub(crate) fn clock(folder: &Folder, speed: f64) -> io::Result<Clock> {
    let clock = Clock::scaled(speed);
    let Some(bytes) = folder.read(TIME)? else { return Ok(clock) };
    let reached: u64 = serde_json::from_slice(&bytes)
        .map_err(|error| unreadable(folder, TIME, &error.to_string()))?;
    Ok(clock.not_before(Duration::from_secs(reached)))
}

/// Saved state of a lab in its directory.
#[derive(Debug)]
pub(crate) struct LabState {
    pub(crate) folder: Arc<Folder>,
    pub(crate) keys: SavedKeys,
    /// Number of restarts of the lab from this directory.
    pub(crate) runs: u64,
    seed: u64,
    /// Content of the saved files, to skip the write of a file that did not change.
    saved: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SavedKeys {
    pub(crate) identity: Identity,
    /// Seed of the keys that sign tickets.
    pub(crate) tickets: Vec<u8>,
}

impl std::fmt::Debug for SavedKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedKeys").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Saving<'s> {
    format: u32,
    runs: u64,
    seed: u64,
    #[serde(rename = "world")]
    pve_state: &'s PveState,
}

#[derive(Deserialize)]
struct Saved {
    format: u32,
    runs: u64,
    #[serde(rename = "world")]
    pve_state: PveState,
}

impl LabState {
    /// Opens the saved state in the directory, or creates the state from the scenario. New certificates contain this address
    /// and these names of the Image Factory.
    pub(crate) fn open(
        folder: Folder,
        scenario: Scenario,
        (address, factory): (IpAddr, &[&str]),
        clock: Clock,
        seed: u64,
    ) -> io::Result<(Self, PveState, Blobs)> {
        let now = clock.unix();
        let blobs = Blobs::open(&folder.join("blobs"))?;
        let (runs, pve_state) = match folder.read(PVE_STATE)? {
            Some(bytes) => {
                let saved: Saved = serde_json::from_slice(&bytes)
                    .map_err(|error| unreadable(&folder, PVE_STATE, &error.to_string()))?;
                if saved.format != FORMAT {
                    let text = format!("file format {} is not supported", saved.format);
                    return Err(unreadable(&folder, PVE_STATE, &text));
                }
                check_written(&saved.pve_state)
                    .map_err(|error| unreadable(&folder, PVE_STATE, &error.to_string()))?;
                (saved.runs + 1, after_power_failure(saved.pve_state, now))
            }
            None => (0, scenario.into_pve_state(&blobs, now, &mut Chance::new(seed))?),
        };
        blobs.keep_only(&blobs_of(&pve_state))?;
        let (keys, is_new) = match folder.read(KEYS)? {
            Some(bytes) => {
                let keys = serde_json::from_slice(&bytes)
                    .map_err(|error| unreadable(&folder, KEYS, &error.to_string()))?;
                renewed(keys, &pve_state, address, factory)?
            }
            None => (new_keys(&pve_state, address, factory)?, true),
        };
        if is_new && folder.is_kept() {
            folder.write(KEYS, &serde_json::to_vec(&keys)?)?;
        }
        let folder = Arc::new(folder);
        let state = Self { folder, keys, runs, seed, saved: Mutex::default() };
        state.save(&pve_state, clock)?;
        Ok((state, pve_state, blobs))
    }

    /// Saves the state of the simulated Proxmox if it changed.
    pub(crate) fn save(&self, pve_state: &PveState, clock: Clock) -> io::Result<()> {
        if self.folder.is_kept() {
            self.store(self.snapshot_json(pve_state)?, clock)?;
        }
        Ok(())
    }

    /// Serialized state of the simulated Proxmox. Serialization needs the lock of the state, but storing the result does not.
    pub(crate) fn snapshot_json(&self, pve_state: &PveState) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(&Saving {
            format: FORMAT,
            runs: self.runs,
            seed: self.seed,
            pve_state,
        })?)
    }

    /// Stores the serialized state. The lab time is stored first, so that after a kill no timestamp in the stored state is
    /// later than the stored lab time.
    pub(crate) fn store(&self, snapshot_json: Vec<u8>, clock: Clock) -> io::Result<()> {
        // The time is rounded up to full seconds.
        self.store_as(TIME, serde_json::to_vec(&clock.unix().saturating_add(1))?)?;
        self.store_as(PVE_STATE, snapshot_json)
    }

    fn store_as(&self, name: &'static str, snapshot_json: Vec<u8>) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.get(name) != Some(&snapshot_json) {
            self.folder.write(name, &snapshot_json)?;
            saved.insert(name, snapshot_json);
        }
        Ok(())
    }

    /// etcd clusters of a saved lab.
    pub(crate) fn read_etcds(&self) -> io::Result<Vec<SavedCluster>> {
        let Some(bytes) = self.folder.read(ETCDS)? else { return Ok(vec![]) };
        let read = serde_json::from_slice(&bytes);
        read.map_err(|error| unreadable(&self.folder, ETCDS, &error.to_string()))
    }

    /// Saves the etcd clusters if they changed.
    pub(crate) fn save_etcds(&self, clusters: &[SavedCluster]) -> io::Result<()> {
        if self.folder.is_kept() {
            self.store_as(ETCDS, serde_json::to_vec(clusters)?)?;
        }
        Ok(())
    }
}

fn new_keys(pve_state: &PveState, address: IpAddr, factory: &[&str]) -> io::Result<SavedKeys> {
    let hosts: Vec<&str> = pve_state.hosts.keys().map(String::as_str).collect();
    let identity = Identity::new(&hosts, factory, address).map_err(io::Error::other)?;
    let mut tickets = vec![0; talmox_lab_pve::KEY_BYTES];
    rand::fill(&mut tickets).map_err(io::Error::other)?;
    Ok(SavedKeys { identity, tickets })
}

/// Issues new certificates if the lab has another address or other names. Returns the keys, and whether they changed.
fn renewed(
    keys: SavedKeys,
    pve_state: &PveState,
    address: IpAddr,
    factory: &[&str],
) -> io::Result<(SavedKeys, bool)> {
    let hosts: Vec<&str> = pve_state.hosts.keys().map(String::as_str).collect();
    let identity = keys.identity.reissued(&hosts, factory, address).map_err(io::Error::other)?;
    Ok(match identity {
        Some(identity) => (SavedKeys { identity, ..keys }, true),
        None => (keys, false),
    })
}

fn unreadable(folder: &Folder, name: &str, text: &str) -> io::Error {
    let text = format!("{}: {text}", folder.join(name).display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Returns the state after a power failure: running tasks are aborted, and all hosts have just booted. Guests are off, because
/// the saved state does not contain which guests run.
fn after_power_failure(mut pve_state: PveState, now: u64) -> PveState {
    pve_state.tasks.end_running(now);
    for host in pve_state.hosts.values_mut() {
        host.booted = now;
    }
    pve_state
}

/// Checks that the data that nodes wrote to volumes can be parsed. The simulated Proxmox stores this data without parsing it,
/// and a node with unreadable data would boot without its config.
fn check_written(pve_state: &PveState) -> serde_json::Result<()> {
    let volumes = pve_state.storages.values().flat_map(|storage| storage.volumes.values());
    for volume in volumes.flat_map(|volumes| volumes.values()) {
        let snapshots = volume.snapshots.values().filter_map(|saved| saved.written.as_ref());
        for written in snapshots.chain(&volume.written) {
            Written::deserialize(written)?;
        }
    }
    Ok(())
}

/// Blobs that the volumes and their snapshots consist of.
pub(crate) fn blobs_of(pve_state: &PveState) -> BTreeSet<BlobId> {
    let volumes = pve_state.storages.values().flat_map(|storage| storage.volumes.values());
    let volumes = volumes.flat_map(|volumes| volumes.values());
    let all = volumes.flat_map(|volume| {
        let snapshots = volume.snapshots.values().filter_map(|saved| saved.blob.clone());
        snapshots.chain(volume.blob.clone())
    });
    all.collect()
}
