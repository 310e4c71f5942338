//! Conversion of VM disks to base volumes.

use talmox_lab_environment::Work;

use super::drive;
use crate::ApiError;
use crate::pve_state::StorageKind;
use crate::storage::{self, Feature};
use crate::task::TaskHandle;

/// Converts the disks of a template to base volumes, if the storage supports base volumes. `disk` limits this to one disk.
pub(crate) async fn convert(
    task: &TaskHandle,
    node: &str,
    vmid: u32,
    only: Option<&str>,
) -> Result<(), ApiError> {
    let site = &task.site;
    let drives = drive::drives(&site.pve_state().vm(node, vmid)?.config);
    for mut drive in drives {
        if drive.is_cdrom() || only.is_some_and(|only| only != drive.key) {
            continue;
        }
        let Some(volume) = drive.volume() else { continue };
        if !storage::can(&site.pve_state(), &volume, Feature::Template, None)? {
            continue;
        }
        task.wait(Work::Allocate).await.map_err(ApiError::failed)?;
        let mut pve_state = site.pve_state();
        let base = storage::create_base(&mut pve_state, node, &volume)?;
        drive.set("file", base.to_string());
        pve_state.vm_mut(node, vmid)?.config.insert(drive.key.clone(), drive.print());
        let is_lvm = pve_state.storage(&base.storage)?.kind == StorageKind::LvmThin;
        drop(pve_state);
        if is_lvm {
            task.log(format!("  Renamed \"{}\" to \"{}\"", volume.name, base.name));
        }
    }
    Ok(())
}
