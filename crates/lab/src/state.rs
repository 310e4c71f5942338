//! What a lab is when it starts again: its world, its certificate, the keys of its tickets.

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
use talmox_lab_pve::world::World;
use talmox_lab_pve::{BlobId, Blobs};
use talmox_lab_talos::{SavedCluster, Written};

use crate::Scenario;
use crate::certificate::Identity;

const WORLD: &str = "world.json";
const KEYS: &str = "keys.json";
const ETCDS: &str = "etcd.json";
const TIME: &str = "time.json";
/// Told apart from what later versions write.
const FORMAT: u32 = 1;

/// Whether a lab was kept in this folder.
pub fn has_state(folder: &Path) -> bool {
    folder.join(WORLD).exists()
}

/// The seed of the lab that was kept in this folder, if there is one.
pub fn saved_seed(folder: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Seeded {
        seed: u64,
    }
    let bytes = std::fs::read(folder.join(WORLD)).ok()?;
    serde_json::from_slice::<Seeded>(&bytes).ok().map(|saved| saved.seed)
}

/// What time it was in the lab that was kept in this folder, in seconds since 1970.
pub fn saved_time(folder: &Path) -> Option<u64> {
    serde_json::from_slice(&std::fs::read(folder.join(TIME)).ok()?).ok()
}

/// The time of a lab in this folder: it goes on from where it was, and never jumps back. A fast one may have been far
/// ahead of ours.
pub(crate) fn clock(folder: &Folder, speed: f64) -> io::Result<Clock> {
    let clock = Clock::scaled(speed);
    let Some(bytes) = folder.read(TIME)? else { return Ok(clock) };
    let reached: u64 = serde_json::from_slice(&bytes)
        .map_err(|error| unreadable(folder, TIME, &error.to_string()))?;
    Ok(clock.not_before(Duration::from_secs(reached)))
}

/// Everything that lasts, in its folder.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) folder: Arc<Folder>,
    pub(crate) keys: SavedKeys,
    /// How often a lab was started from this folder.
    pub(crate) runs: u64,
    seed: u64,
    /// What the folder's files say now.
    saved: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SavedKeys {
    pub(crate) identity: Identity,
    /// The seed of the keys that sign tickets.
    pub(crate) tickets: Vec<u8>,
}

impl std::fmt::Debug for SavedKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedKeys").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Saving<'w> {
    format: u32,
    runs: u64,
    seed: u64,
    world: &'w World,
}

#[derive(Deserialize)]
struct Saved {
    format: u32,
    runs: u64,
    world: World,
}

impl State {
    /// What the folder has, else what the scenario says. New certificates are for this address and
    /// these names of the Image Factory.
    pub(crate) fn open(
        folder: Folder,
        scenario: Scenario,
        (address, factory): (IpAddr, &[&str]),
        clock: Clock,
        seed: u64,
    ) -> io::Result<(Self, World, Blobs)> {
        let now = clock.unix();
        let blobs = Blobs::open(&folder.join("blobs"))?;
        let (runs, world) = match folder.read(WORLD)? {
            Some(bytes) => {
                let saved: Saved = serde_json::from_slice(&bytes)
                    .map_err(|error| unreadable(&folder, WORLD, &error.to_string()))?;
                if saved.format != FORMAT {
                    let text = format!("format {} is not known", saved.format);
                    return Err(unreadable(&folder, WORLD, &text));
                }
                check_written(&saved.world)
                    .map_err(|error| unreadable(&folder, WORLD, &error.to_string()))?;
                (saved.runs + 1, after_power_cut(saved.world, now))
            }
            None => (0, scenario.into_world(&blobs, now, &mut Chance::new(seed))?),
        };
        blobs.keep_only(&blobs_of(&world))?;
        let (keys, is_new) = match folder.read(KEYS)? {
            Some(bytes) => {
                let keys = serde_json::from_slice(&bytes)
                    .map_err(|error| unreadable(&folder, KEYS, &error.to_string()))?;
                renewed(keys, &world, address, factory)?
            }
            None => (new_keys(&world, address, factory)?, true),
        };
        if is_new && folder.is_kept() {
            folder.write(KEYS, &serde_json::to_vec(&keys)?)?;
        }
        let folder = Arc::new(folder);
        let state = Self { folder, keys, runs, seed, saved: Mutex::default() };
        state.save(&world, clock)?;
        Ok((state, world, blobs))
    }

    /// Writes the world down, if it changed since the last time.
    pub(crate) fn save(&self, world: &World, clock: Clock) -> io::Result<()> {
        if self.folder.is_kept() {
            self.store(self.picture(world)?, clock)?;
        }
        Ok(())
    }

    /// The world as it is written; taking it needs the world, storing it does not.
    pub(crate) fn picture(&self, world: &World) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(&Saving { format: FORMAT, runs: self.runs, seed: self.seed, world })?)
    }

    /// The time goes first: whenever the lab is killed, nothing in its world is ahead of it.
    pub(crate) fn store(&self, picture: Vec<u8>, clock: Clock) -> io::Result<()> {
        // The second that has begun counts.
        self.store_as(TIME, serde_json::to_vec(&clock.unix().saturating_add(1))?)?;
        self.store_as(WORLD, picture)
    }

    fn store_as(&self, name: &'static str, picture: Vec<u8>) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.get(name) != Some(&picture) {
            self.folder.write(name, &picture)?;
            saved.insert(name, picture);
        }
        Ok(())
    }

    /// The etcd clusters of a lab that was kept.
    pub(crate) fn read_etcds(&self) -> io::Result<Vec<SavedCluster>> {
        let Some(bytes) = self.folder.read(ETCDS)? else { return Ok(vec![]) };
        let read = serde_json::from_slice(&bytes);
        read.map_err(|error| unreadable(&self.folder, ETCDS, &error.to_string()))
    }

    /// Writes the etcd clusters down, if they changed since the last time.
    pub(crate) fn save_etcds(&self, clusters: &[SavedCluster]) -> io::Result<()> {
        if self.folder.is_kept() {
            self.store_as(ETCDS, serde_json::to_vec(clusters)?)?;
        }
        Ok(())
    }
}

fn new_keys(world: &World, address: IpAddr, factory: &[&str]) -> io::Result<SavedKeys> {
    let hosts: Vec<&str> = world.hosts.keys().map(String::as_str).collect();
    let identity = Identity::new(&hosts, factory, address).map_err(io::Error::other)?;
    let mut tickets = vec![0; talmox_lab_pve::KEY_BYTES];
    rand::fill(&mut tickets).map_err(io::Error::other)?;
    Ok(SavedKeys { identity, tickets })
}

/// A lab that moved to another address gets a certificate that names it. Whether that was so.
fn renewed(
    keys: SavedKeys,
    world: &World,
    address: IpAddr,
    factory: &[&str],
) -> io::Result<(SavedKeys, bool)> {
    let hosts: Vec<&str> = world.hosts.keys().map(String::as_str).collect();
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

/// Guests are off, which the world does not save, and what ran has broken off.
fn after_power_cut(mut world: World, now: u64) -> World {
    world.tasks.break_off(now);
    for host in world.hosts.values_mut() {
        host.booted = now;
    }
    world
}

/// Proxmox keeps what nodes wrote onto volumes and cannot read it: a node that could not either would boot without its
/// config.
fn check_written(world: &World) -> serde_json::Result<()> {
    let volumes = world.storages.values().flat_map(|storage| storage.volumes.values());
    for volume in volumes.flat_map(|volumes| volumes.values()) {
        let snapshots = volume.snapshots.values().filter_map(|saved| saved.written.as_ref());
        for written in snapshots.chain(&volume.written) {
            Written::deserialize(written)?;
        }
    }
    Ok(())
}

/// What the volumes of the world consist of.
pub(crate) fn blobs_of(world: &World) -> BTreeSet<BlobId> {
    let volumes = world.storages.values().flat_map(|storage| storage.volumes.values());
    let volumes = volumes.flat_map(|volumes| volumes.values());
    let all = volumes.flat_map(|volume| {
        let snapshots = volume.snapshots.values().filter_map(|saved| saved.blob.clone());
        snapshots.chain(volume.blob.clone())
    });
    all.collect()
}
