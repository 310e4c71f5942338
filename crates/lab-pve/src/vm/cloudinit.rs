//! Cloud-init drive, which is generated from the options of a VM.

use std::io;

use talmox_lab_environment::Work;
use talmox_talos_config::cidata;

use super::disk_creation::{Worker, lock_storage};
use super::drive;
use super::{cloudinit_text, option_permissions};
use crate::pve_state::{Config, ContentType, PveState, VolumeId};
use crate::schema::{self, FormatName};
use crate::site::Site;
use crate::storage::{self, Allocation};
use crate::{ApiError, digest};

const DRIVE_KIB: u64 = 4 << 10;
/// Maximum total size in bytes of the files on the drive.
const MAX_BYTES: usize = 3 << 20;

/// Cloud-init options of a config.
pub(crate) fn options(config: &Config) -> Config {
    let is_one = |key: &str| option_permissions::is_cloudinit_option(key) || is_ip_config(key);
    config.iter().filter(|(key, _)| is_one(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn is_ip_config(key: &str) -> bool {
    let number = key.strip_prefix("ipconfig");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Type of the cloud-init drive: `nocloud`, `configdrive2` or `opennebula`.
pub(crate) fn kind(config: &Config) -> &str {
    let windows = config.get("ostype").is_some_and(|ostype| ostype.starts_with('w'));
    let default = if windows { "configdrive2" } else { "nocloud" };
    config.get("citype").map_or(default, String::as_str)
}

/// Cloud-init volumes of the VM, in the order of the buses IDE, SCSI, VirtIO, SATA.
///
/// The API rejects a second cloud-init drive, but a config that was edited manually may contain several.
pub(crate) fn volumes_of(config: &Config, vmid: u32) -> Vec<VolumeId> {
    let own = format!("vm-{vmid}-cloudinit");
    let volumes = drive::drives(config).into_iter().filter_map(|drive| drive.volume());
    volumes.filter(|volume| volume.name.contains(&own)).collect()
}

/// Writes all cloud-init drives of a VM. Volumes that are missing are created.
///
/// A drive of another type than `nocloud` stays empty, because the image writer does not support folders.
pub(crate) async fn write_drive(worker: &Worker, node: &str, vmid: u32) -> Result<(), ApiError> {
    let site = worker.site();
    let config = site.pve_state().vm(node, vmid)?.config.clone();
    let volumes = volumes_of(&config, vmid);
    if volumes.is_empty() || kind(&config) != "nocloud" {
        return Ok(());
    }
    let files = CloudinitFiles::of(site, node, vmid, &config)?;
    if files.bytes() > MAX_BYTES {
        return Err(ApiError::failed("Cloud-Init sum of snippets too big (> 3 MiB)"));
    }
    for volume in &volumes {
        write_volume(worker, node, vmid, volume, &files).await?;
    }
    let mut pve_state = site.pve_state();
    let vm = pve_state.vm_mut(node, vmid)?;
    if let Some(run) = &mut vm.run {
        // The running VM can read the new content now, so the options on the drive are recorded.
        let written = options(&vm.config);
        run.config
            .retain(|key, _| !option_permissions::is_cloudinit_option(key) && !is_ip_config(key));
        run.config.extend(written);
    }
    Ok(())
}

async fn write_volume(
    worker: &Worker,
    node: &str,
    vmid: u32,
    volume: &VolumeId,
    files: &CloudinitFiles,
) -> Result<(), ApiError> {
    let site = worker.site();
    if storage::find(&site.pve_state(), node, volume)?.is_none() {
        make_volume(worker, node, vmid, volume).await?;
    }
    storage::activate(&site.pve_state(), node, volume)?;
    worker.log("generating cloud-init ISO");
    let image = files.image()?;
    let blob = site.blobs.write(image.as_bytes()).map_err(|error| unwritable(&error))?;
    let mut pve_state = site.pve_state();
    let found = storage::find(&pve_state, node, volume)?.cloned();
    if let Some(mut written) = found {
        let length = u64::try_from(image.as_bytes().len()).unwrap_or_default();
        written.used = written.used.max(length);
        written.blob = Some(blob);
        storage::put(&mut pve_state, node, volume, written)?;
    }
    Ok(())
}

fn unwritable(error: &io::Error) -> ApiError {
    ApiError::failed(format!("unable to write cloud-init image - {error}"))
}

async fn make_volume(
    worker: &Worker,
    node: &str,
    vmid: u32,
    volume: &VolumeId,
) -> Result<(), ApiError> {
    let site = worker.site();
    let (shared, format) = {
        let pve_state = site.pve_state();
        let format = storage::name_of(&pve_state, volume)?.format;
        (pve_state.storage_on(&volume.storage, node)?.shared, format)
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
    storage::alloc(&mut site.pve_state(), &new).map(drop)
}

/// Files on a cloud-init drive.
struct CloudinitFiles {
    user: String,
    network: String,
    meta: String,
    vendor: String,
}

impl CloudinitFiles {
    /// Files that are generated from the options, or the snippets in `cicustom`.
    fn of(site: &Site, node: &str, vmid: u32, config: &Config) -> Result<Self, ApiError> {
        let pve_state = site.pve_state();
        let format = schema::format(pve_state.release, FormatName::CiCustom);
        let custom = config.get("cicustom").and_then(|text| format.parse(text).ok());
        let custom = custom.unwrap_or_default();
        let snippet = |part: &str| {
            custom.get(part).map(|volume| snippet(&pve_state, site, node, volume)).transpose()
        };
        let network = snippet("network")?;
        let user = snippet("user")?;
        let meta = snippet("meta")?;
        let vendor = snippet("vendor")?.unwrap_or_default();
        let user = user.unwrap_or_else(|| cloudinit_text::user(config, vmid, false));
        let network =
            network.unwrap_or_else(|| cloudinit_text::network_v1(&pve_state, node, config));
        let meta = meta.unwrap_or_else(|| cloudinit_text::meta(&user, &network));
        Ok(Self { user, network, meta, vendor })
    }

    fn bytes(&self) -> usize {
        self.user.len() + self.network.len() + self.meta.len() + self.vendor.len()
    }

    fn image(&self) -> Result<cidata::Image, ApiError> {
        let files = [
            ("meta-data", self.meta.as_bytes()),
            ("network-config", self.network.as_bytes()),
            ("user-data", self.user.as_bytes()),
            ("vendor-data", self.vendor.as_bytes()),
        ];
        cidata::volume(&files).map_err(|error| ApiError::failed(error.to_string()))
    }
}

/// Content of a snippet on a storage.
fn snippet(pve_state: &PveState, site: &Site, node: &str, text: &str) -> Result<String, ApiError> {
    let malformed = || ApiError::failed(format!("unable to parse volume ID '{text}'\n"));
    let volume = VolumeId::parse(text).ok_or_else(malformed)?;
    if storage::name_of(pve_state, &volume)?.content != ContentType::Snippets {
        return Err(ApiError::failed(format!("{text} is not in the snippets directory")));
    }
    let path = storage::path_of(pve_state, &volume)?;
    let missing = || ApiError::failed(format!("can't open '{path}' - No such file or directory"));
    let found = storage::find(pve_state, node, &volume)?.ok_or_else(missing)?;
    let Some(blob) = &found.blob else { return Ok(String::new()) };
    std::fs::read_to_string(site.blobs.path(blob)).map_err(|_| missing())
}

/// Text for `GET cloudinit/dump`. It never contains the content of snippets.
pub(crate) fn dump(
    pve_state: &PveState,
    node: &str,
    vmid: u32,
    part: &str,
    mask_password: bool,
) -> Result<String, ApiError> {
    let config = &pve_state.vm(node, vmid)?.config;
    let is_nocloud = kind(config) == "nocloud";
    let network = || {
        if is_nocloud {
            cloudinit_text::network_v1(pve_state, node, config)
        } else {
            cloudinit_text::interfaces(pve_state, node, config)
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
