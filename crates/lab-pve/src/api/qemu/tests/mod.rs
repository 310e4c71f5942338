//! Tests of VM calls together with the tasks that they start.

mod clone;
mod cloudinit;
mod destroy;
mod disks;
mod migrate;
mod power;
mod snapshot;
mod start_check;
mod vm_status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::{Environment, Profile};

use crate::blob::Blobs;
use crate::call::{Call, Reply};
use crate::pve_state::{Bridge, Caller, Host, PveState, Run, StorageKind, TaskState, Vm, VolumeId};
use crate::schema::{Method, Raw, find, verify};
use crate::site::Site;
use crate::storage::{self, fixture};
use crate::{ApiError, Release};

/// Test site with two hosts, two storages and the user root.
struct QemuTestBench {
    site: Arc<Site>,
    _folder: tempfile::TempDir,
}

impl QemuTestBench {
    fn new() -> Self {
        Self::with(Release::V9, Profile::Instant, 1000.0)
    }

    fn with(release: Release, profile: Profile, speed: f64) -> Self {
        let mut pve_state = PveState::new(release);
        for name in ["pve1", "pve2"] {
            pve_state.hosts.insert(name.to_owned(), host());
        }
        let storages = [("local", StorageKind::Dir), ("local-lvm", StorageKind::LvmThin)];
        pve_state.storages =
            storages.map(|(id, kind)| (id.to_owned(), fixture::storage(kind))).into();
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let site = Site::new(
            pve_state,
            blobs,
            Arc::new(Environment::new(Clock::scaled(speed), Chance::new(7), profile)),
        );
        Self { site: Arc::new(site), _folder: folder }
    }

    /// Adds a stopped VM with one disk.
    fn vm(&self, vmid: u32, options: &[(&str, &str)]) {
        let disk = format!("local-lvm:vm-{vmid}-disk-0");
        let id = VolumeId::parse(&disk).unwrap();
        let mut pve_state = self.site.pve_state();
        storage::put(&mut pve_state, "pve1", &id, fixture::volume("raw", 10 << 30)).unwrap();
        let mut vm = Vm { node: "pve1".to_owned(), ..Vm::default() };
        vm.config.insert("scsi0".to_owned(), format!("{disk},size=10G"));
        vm.config.insert("boot".to_owned(), "order=scsi0".to_owned());
        for (key, value) in options {
            vm.config.insert((*key).to_owned(), (*value).to_owned());
        }
        pve_state.vms.insert(vmid, vm);
    }

    /// Adds a running VM with one disk.
    fn running(&self, vmid: u32, options: &[(&str, &str)]) {
        self.vm(vmid, options);
        let mut pve_state = self.site.pve_state();
        let vm = pve_state.vms.get_mut(&vmid).unwrap();
        vm.run = Some(Run {
            since: 0,
            pid: 4711,
            paused: false,
            config: vm.config.clone(),
            agent: None,
            held_drives: std::collections::BTreeSet::new(),
        });
    }

    fn is_running(&self, vmid: u32) -> bool {
        self.site.pve_state().vms[&vmid].is_running()
    }

    fn option(&self, vmid: u32, key: &str) -> Option<String> {
        self.site.pve_state().vms[&vmid].config.get(key).cloned()
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        sent: &[(&str, &str)],
    ) -> Result<Json, ApiError> {
        self.call_as("root@pam", method, path, sent).await
    }

    async fn call_as(
        &self,
        who: &str,
        method: Method,
        path: &str,
        sent: &[(&str, &str)],
    ) -> Result<Json, ApiError> {
        let release = self.site.pve_state().release;
        let path = format!("/nodes/pve1/qemu{path}");
        let (endpoint, of_path) = find(release, method, &path).expect("a known path");
        let mut raw: BTreeMap<String, Raw> =
            of_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
        raw.extend(sent.iter().map(|(name, value)| ((*name).to_owned(), Raw::from(*value))));
        let params = verify(endpoint, &raw)?;
        let (site, node) = (Arc::clone(&self.site), "pve1".to_owned());
        let call = Call { site, caller: Caller::parse(who), node, params, release };
        match super::answer(endpoint, &call).await? {
            Reply::Data(data) | Reply::Page { data, .. } => Ok(data),
        }
    }

    /// Sends a call that starts a task, waits for the task, and returns its exit status.
    async fn task(&self, path: &str, sent: &[(&str, &str)]) -> String {
        let upid = self.call(Method::Post, path, sent).await.unwrap();
        self.end_of(upid.as_str().unwrap()).await
    }

    async fn end_of(&self, upid: &str) -> String {
        loop {
            let state = self.site.pve_state().tasks.get(upid).unwrap().state.clone();
            if let TaskState::Stopped { exit, .. } = state {
                return exit;
            }
            self.site.clock.sleep(Duration::from_millis(200)).await;
        }
    }

    fn log(&self, kind: &str) -> Vec<String> {
        let pve_state = self.site.pve_state();
        let tasks = pve_state.tasks.iter().filter(|task| task.kind == kind);
        tasks.flat_map(|task| task.log.clone()).collect()
    }

    /// Waits until a condition on the test site holds.
    async fn until(&self, what: impl Fn(&Self) -> bool) {
        for _ in 0..2000 {
            if what(self) {
                return;
            }
            self.site.clock.sleep(Duration::from_secs(1)).await;
        }
        panic!("the condition did not become true");
    }
}

fn host() -> Host {
    Host {
        online: true,
        ip: "10.0.0.11".to_owned(),
        cores: 8,
        memory: 32 << 30,
        bridges: vec![Bridge {
            name: "vmbr0".to_owned(),
            cidr: None,
            gateway: None,
            vlan_aware: false,
        }],
        pci: vec![],
        booted: 0,
        settings: [("search", "lan"), ("dns1", "10.0.0.1")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    }
}

fn message(result: Result<Json, ApiError>) -> String {
    let error = result.unwrap_err();
    let errors: String = error.errors.iter().map(|(k, v)| format!(" {k}: {v}")).collect();
    format!("{} {}{errors}", error.status, error.message)
}
