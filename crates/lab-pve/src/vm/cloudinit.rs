//! The cloud-init drive: what Proxmox writes on it, from the options of the VM.

use std::io;

use talmox_lab_environment::Work;
use talmox_talos_config::cidata;

use super::disks::{Worker, lock_storage};
use super::drive;
use super::{cloudinit_text, rights};
use crate::schema::{self, FormatName};
use crate::site::Site;
use crate::storage::{self, Allocation};
use crate::world::{Config, ContentType, VolumeId, World};
use crate::{Refusal, digest};

const DRIVE_KIB: u64 = 4 << 10;
/// What fits on the drive, with the frame of the image.
const MOST_BYTES: usize = 3 << 20;

/// Which of the cloud-init options a configuration has.
pub(crate) fn options(config: &Config) -> Config {
    let is_one = |key: &str| rights::is_cloudinit_option(key) || is_ip_config(key);
    config.iter().filter(|(key, _)| is_one(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn is_ip_config(key: &str) -> bool {
    let number = key.strip_prefix("ipconfig");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `nocloud`, `configdrive2` or `opennebula`.
pub(crate) fn kind(config: &Config) -> &str {
    let windows = config.get("ostype").is_some_and(|ostype| ostype.starts_with('w'));
    let default = if windows { "configdrive2" } else { "nocloud" };
    config.get("citype").map_or(default, String::as_str)
}

/// The volumes of the drives that are the VM's own, in the order of the slots: IDE, SCSI, VirtIO, SATA.
///
/// The API refuses a second one; a configuration that was edited by hand may have several.
pub(crate) fn volumes_of(config: &Config, vmid: u32) -> Vec<VolumeId> {
    let own = format!("vm-{vmid}-cloudinit");
    let volumes = drive::drives(config).into_iter().filter_map(|drive| drive.volume());
    volumes.filter(|volume| volume.name.contains(&own)).collect()
}

/// Writes each of the drives that the VM has; a volume that is gone is made again.
///
/// The other kinds of drives have folders, which our images have not: they stay empty.
pub(crate) async fn write_drive(worker: &Worker, node: &str, vmid: u32) -> Result<(), Refusal> {
    let site = worker.site();
    let config = site.world().vm(node, vmid)?.config.clone();
    let volumes = volumes_of(&config, vmid);
    if volumes.is_empty() || kind(&config) != "nocloud" {
        return Ok(());
    }
    let files = Files::of(site, node, vmid, &config)?;
    if files.bytes() > MOST_BYTES {
        return Err(Refusal::failed("Cloud-Init sum of snippets too big (> 3 MiB)"));
    }
    for volume in &volumes {
        write_volume(worker, node, vmid, volume, &files).await?;
    }
    let mut world = site.world();
    let vm = world.vm_mut(node, vmid)?;
    if let Some(run) = &mut vm.run {
        // What runs has read the drive, or can read it now.
        let written = options(&vm.config);
        run.config.retain(|key, _| !rights::is_cloudinit_option(key) && !is_ip_config(key));
        run.config.extend(written);
    }
    Ok(())
}

async fn write_volume(
    worker: &Worker,
    node: &str,
    vmid: u32,
    volume: &VolumeId,
    files: &Files,
) -> Result<(), Refusal> {
    let site = worker.site();
    if storage::find(&site.world(), node, volume)?.is_none() {
        make_volume(worker, node, vmid, volume).await?;
    }
    storage::activate(&site.world(), node, volume)?;
    worker.log("generating cloud-init ISO");
    let image = files.image()?;
    let blob = site.blobs.write(image.as_bytes()).map_err(|error| unwritable(&error))?;
    let mut world = site.world();
    let found = storage::find(&world, node, volume)?.cloned();
    if let Some(mut written) = found {
        let length = u64::try_from(image.as_bytes().len()).unwrap_or_default();
        written.used = written.used.max(length);
        written.blob = Some(blob);
        storage::put(&mut world, node, volume, written)?;
    }
    Ok(())
}

fn unwritable(error: &io::Error) -> Refusal {
    Refusal::failed(format!("unable to write cloud-init image - {error}"))
}

async fn make_volume(
    worker: &Worker,
    node: &str,
    vmid: u32,
    volume: &VolumeId,
) -> Result<(), Refusal> {
    let site = worker.site();
    let (shared, format) = {
        let world = site.world();
        let format = storage::name_of(&world, volume)?.format;
        (world.storage_on(&volume.storage, node)?.shared, format)
    };
    let name = volume.name.rsplit('/').next();
    let _guard = lock_storage(worker, node, &volume.storage, shared).await?;
    worker.wait(Work::Allocate, &volume.storage).await?;
    let new = Allocation {
        node,
        storage: &volume.storage,
        vmid,
        format: Some(format),
        name,
        kib: DRIVE_KIB,
        now: site.now(),
    };
    storage::alloc(&mut site.world(), &new).map(drop)
}

/// The files of a drive.
struct Files {
    user: String,
    network: String,
    meta: String,
    vendor: String,
}

impl Files {
    /// What the options make of them, or the snippets that `cicustom` names.
    fn of(site: &Site, node: &str, vmid: u32, config: &Config) -> Result<Self, Refusal> {
        let world = site.world();
        let format = schema::format(world.release, FormatName::CiCustom);
        let custom = config.get("cicustom").and_then(|text| format.parse(text).ok());
        let custom = custom.unwrap_or_default();
        let snippet = |part: &str| {
            custom.get(part).map(|volume| snippet(&world, site, node, volume)).transpose()
        };
        let network = snippet("network")?;
        let user = snippet("user")?;
        let meta = snippet("meta")?;
        let vendor = snippet("vendor")?.unwrap_or_default();
        let user = user.unwrap_or_else(|| cloudinit_text::user(config, vmid, false));
        let network = network.unwrap_or_else(|| cloudinit_text::network_v1(&world, node, config));
        let meta = meta.unwrap_or_else(|| cloudinit_text::meta(&user, &network));
        Ok(Self { user, network, meta, vendor })
    }

    fn bytes(&self) -> usize {
        self.user.len() + self.network.len() + self.meta.len() + self.vendor.len()
    }

    fn image(&self) -> Result<cidata::Image, Refusal> {
        let files = [
            ("meta-data", self.meta.as_bytes()),
            ("network-config", self.network.as_bytes()),
            ("user-data", self.user.as_bytes()),
            ("vendor-data", self.vendor.as_bytes()),
        ];
        cidata::volume(&files).map_err(|error| Refusal::failed(error.to_string()))
    }
}

/// The text of a snippet on a storage.
fn snippet(world: &World, site: &Site, node: &str, text: &str) -> Result<String, Refusal> {
    let malformed = || Refusal::failed(format!("unable to parse volume ID '{text}'\n"));
    let volume = VolumeId::parse(text).ok_or_else(malformed)?;
    if storage::name_of(world, &volume)?.content != ContentType::Snippets {
        return Err(Refusal::failed(format!("{text} is not in the snippets directory")));
    }
    let path = storage::path_of(world, &volume)?;
    let missing = || Refusal::failed(format!("can't open '{path}' - No such file or directory"));
    let found = storage::find(world, node, &volume)?.ok_or_else(missing)?;
    let Some(blob) = &found.blob else { return Ok(String::new()) };
    std::fs::read_to_string(site.blobs.path(blob)).map_err(|_| missing())
}

/// What `GET cloudinit/dump` shows: never a snippet.
pub(crate) fn dump(
    world: &World,
    node: &str,
    vmid: u32,
    part: &str,
    mask_password: bool,
) -> Result<String, Refusal> {
    let config = &world.vm(node, vmid)?.config;
    let is_nocloud = kind(config) == "nocloud";
    let network = || {
        if is_nocloud {
            cloudinit_text::network_v1(world, node, config)
        } else {
            cloudinit_text::interfaces(world, node, config)
        }
    };
    Ok(match part {
        "user" => cloudinit_text::user(config, vmid, mask_password),
        "network" => network(),
        _ => {
            let user = cloudinit_text::user(config, vmid, false);
            if is_nocloud {
                cloudinit_text::meta(&user, &network())
            } else {
                cloudinit_text::config_drive_meta(&digest::of_text(&(user + &network())))
            }
        }
    })
}
