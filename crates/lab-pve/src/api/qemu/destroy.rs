//! Destroying a VM with all that belongs to it.

use std::collections::BTreeSet;

use talmox_lab_environment::Work;

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::ha;
use crate::lock::CALL_PATIENCE;
use crate::storage;
use crate::task::TaskHandle;
use crate::vm::{clone_disk, config, drive, volumes};
use crate::world::{Config, Vm, VolumeId, World};
use crate::{Refusal, Release};

#[derive(Debug)]
struct Destroy {
    node: String,
    vmid: u32,
    skip_lock: bool,
    /// Forget the VM in other configurations too.
    purge: bool,
    /// Also volumes with the VM's number that it does not know of.
    unreferenced: bool,
}

pub(super) fn destroy(call: &Call) -> Outcome {
    let flag = |name: &str| call.params.flag(name).unwrap_or_default();
    let destroy = Destroy {
        node: call.node.clone(),
        vmid: vmid(call),
        skip_lock: flag("skiplock"),
        purge: flag("purge"),
        unreferenced: flag("destroy-unreferenced-disks"),
    };
    if destroy.skip_lock && !call.caller.is_root() {
        return Err(Refusal::parameter("skiplock", "Only root may use this option."));
    }
    destroy.check(&call.world())?;
    let id = destroy.vmid.to_string();
    let upid = call.site.start(&call.node, "qmdestroy", &id, &call.caller, |task| async move {
        destroy.run(&task).await.map_err(|refusal| refusal.to_string())
    });
    Ok(Reply::upid(upid))
}

impl Destroy {
    /// What is looked at first, and again by the task. A lock is the task's own affair.
    fn check(&self, world: &World) -> Result<(), Refusal> {
        let vmid = self.vmid;
        let vm = world.vm(&self.node, vmid)?;
        config::check_protection(vm, &format!("can't remove VM {vmid}"))?;
        if self.is_in_ha(world) && !self.purge {
            return Err(Refusal::failed(format!(
                "unable to remove VM {vmid} - used in HA resources and purge parameter not set."
            )));
        }
        if vm.is_running() {
            return Err(Refusal::failed(format!("VM {vmid} is running - destroy failed")));
        }
        Ok(())
    }

    fn is_in_ha(&self, world: &World) -> bool {
        world.ha.resources.contains_key(&format!("vm:{}", self.vmid))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), Refusal> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_PATIENCE).await?;
        self.check(&site.world())?;
        let vm = site.world().vm(&self.node, self.vmid)?.clone();
        if !self.skip_lock && vm.lock() != Some("suspended") {
            config::check_lock(&vm)?;
        }
        if vm.is_template() {
            self.check_clones(task, &vm)?;
        }
        // What goes wrong from here on is complained about, and the VM goes all the same.
        task.wait(Work::Call).await.map_err(Refusal::failed)?;
        self.remove_volumes(task, &vm).await?;
        let mut world = site.world();
        let locked = Config::from([("lock".to_owned(), "destroyed".to_owned())]);
        let node = self.node.clone();
        world.vms.insert(self.vmid, Vm { node, config: locked, ..Vm::default() });
        self.remove_access(&mut world);
        let was_in_ha = self.is_in_ha(&world);
        if self.purge {
            self.remove_from_ha(&mut world);
        }
        world.vms.remove(&self.vmid);
        drop(world);
        if self.purge {
            task.log(format!("purging VM {} from related configurations..", self.vmid));
            if was_in_ha {
                let vmid = self.vmid;
                task.log(format!("NOTE: removed VM {vmid} from HA resource configuration."));
            }
        }
        Ok(())
    }

    /// A template stays as long as something stands on its volumes.
    fn check_clones(&self, task: &TaskHandle, vm: &Vm) -> Result<(), Refusal> {
        let drives = drive::drives(&vm.config).into_iter().chain(drive::unused(&vm.config));
        for drive in drives.filter(|drive| !drive.is_cdrom()) {
            let Some(volume) = on_storage(drive.file()) else { continue };
            let in_use = storage::is_base_in_use(&task.site.world(), &self.node, &volume);
            match in_use {
                Ok(false) => {}
                Ok(true) => {
                    return Err(Refusal::failed(format!(
                        "base volume '{volume}' is still in use by linked cloned"
                    )));
                }
                Err(refusal) => self.survive(
                    task,
                    refusal,
                    &format!("failed to check if volume '{volume}' is used by linked clones"),
                )?,
            }
        }
        Ok(())
    }

    /// What is only a warning now made the task fail before 9.
    fn survive(&self, task: &TaskHandle, refusal: Refusal, what: &str) -> Result<(), Refusal> {
        if task.site.world().release == Release::V8 {
            return Err(refusal);
        }
        task.warn(&format!("{what}: {refusal}"));
        Ok(())
    }

    async fn remove_volumes(&self, task: &TaskHandle, vm: &Vm) -> Result<(), Refusal> {
        let saved = vm.snapshots.values().flat_map(|snapshot| {
            volumes::all(&snapshot.config).into_iter().filter(|drive| drive.key == "vmstate")
        });
        let drives = volumes::all(&vm.config)
            .into_iter()
            .chain(saved)
            .chain(volumes::all(&vm.pending))
            .filter(|drive| !drive.is_cdrom() || drive.is_cloudinit());
        let mut seen = BTreeSet::new();
        for drive in drives {
            let Some(volume) = on_storage(drive.file()) else { continue };
            if seen.contains(&volume) {
                continue;
            }
            let owner = storage::name_of(&task.site.world(), &volume).map(|name| name.owner);
            match owner {
                Ok(owner) if owner == Some(self.vmid) => {
                    seen.insert(volume.clone());
                    let freed = clone_disk::free(task, &self.node, &volume).await;
                    self.complain(task, freed, |refusal| {
                        format!("Could not remove disk '{volume}', check manually: {refusal}")
                    });
                }
                Ok(_) => {}
                Err(refusal) => {
                    let what = format!("failed to get path and owner of volume '{volume}'");
                    self.survive(task, refusal, &what)?;
                }
            }
        }
        if self.unreferenced {
            let left = storage::volumes_of(&task.site.world(), &self.node, self.vmid);
            for volume in left {
                let freed = clone_disk::free(task, &self.node, &volume).await;
                self.complain(task, freed, Refusal::to_string);
            }
        }
        Ok(())
    }

    /// A volume that cannot be removed stays behind; since 9 the task's result tells of it.
    fn complain(
        &self,
        task: &TaskHandle,
        done: Result<(), Refusal>,
        text: impl Fn(&Refusal) -> String,
    ) {
        let Err(refusal) = done else { return };
        let release = task.site.world().release;
        match release {
            Release::V8 => task.log(text(&refusal)),
            Release::V9 => task.warn(&text(&refusal)),
        }
    }

    fn remove_access(&self, world: &mut World) {
        let path = format!("/vms/{}", self.vmid);
        world.access.acl.retain(|entry| entry.path != path);
        for pool in world.pools.values_mut() {
            pool.vms.remove(&self.vmid);
        }
    }

    fn remove_from_ha(&self, world: &mut World) {
        let sid = format!("vm:{}", self.vmid);
        if world.ha.resources.remove(&sid).is_none() || world.release == Release::V8 {
            return;
        }
        ha::forget_in_rules(world, &sid);
    }
}

fn on_storage(file: &str) -> Option<VolumeId> {
    VolumeId::parse(file).filter(|_| !file.starts_with('/'))
}
