//! Tests of the storage calls, from parameters to answers and tasks.

mod new_file;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::fetch::Outside;
use talmox_lab_environment::{Environment, Profile};

use crate::blob::Blobs;
use crate::call::{Call, Outcome, Reply, Upload};
use crate::pve_state::{AclEntry, Caller, ContentType, TaskState, VolumeId};
use crate::schema::{Method, Raw, find, verify};
use crate::site::Site;
use crate::storage::fixture::{pve_state, volume};
use crate::storage::put;
use crate::{ApiError, Release};

/// Test site with storages.
struct StorageTestBench {
    site: Arc<Site>,
    _folder: tempfile::TempDir,
}

impl StorageTestBench {
    fn new() -> Self {
        Self::reaching(BTreeMap::new())
    }

    fn reaching(reach: BTreeMap<String, SocketAddr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let mut pve_state = pve_state();
        let dir = pve_state.storages.get_mut("dir").unwrap();
        dir.content.extend([ContentType::Backup, ContentType::Snippets, ContentType::Vztmpl]);
        let environment = Environment::new(Clock::scaled(1000.0), Chance::new(7), Profile::Instant)
            .with_outside(Outside::new(reach));
        let site = Site::new(pve_state, blobs, Arc::new(environment));
        Self { site: Arc::new(site), _folder: folder }
    }

    fn add(&self, id: &str, format: &str, size: u64) {
        let id = VolumeId::parse(id).unwrap();
        put(&mut self.site.pve_state(), "pve1", &id, volume(format, size)).unwrap();
    }

    async fn send(
        &self,
        who: &str,
        method: Method,
        path: &str,
        sent: Json,
        file: Option<Upload>,
    ) -> Outcome {
        let release = Release::V9;
        let (endpoint, of_path) = find(release, method, path).unwrap();
        let mut raw: BTreeMap<String, Raw> =
            of_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
        for (name, value) in sent.as_object().unwrap() {
            raw.insert(name.clone(), Raw::from(value.clone()));
        }
        let params = verify(endpoint, &raw)?;
        let site = Arc::clone(&self.site);
        let node = params.text("node").unwrap_or("pve1").to_owned();
        let call = Call { site, caller: Caller::parse(who), node, params, release };
        super::answer(endpoint, call, file).await
    }

    async fn data(&self, method: Method, path: &str, sent: Json) -> Json {
        match self.send("root@pam", method, path, sent, None).await.unwrap() {
            Reply::Data(data) => data,
            Reply::Page { .. } => panic!("a page"),
        }
    }

    async fn rejected(&self, method: Method, path: &str, sent: Json) -> String {
        let api_error = self.send("root@pam", method, path, sent, None).await.unwrap_err();
        let ApiError { status, message, errors } = api_error;
        errors.into_iter().fold(format!("{status} {message}"), |text, (name, error)| {
            format!("{text} [{name}: {error}]")
        })
    }

    /// Waits for the task of a call and returns its exit status.
    async fn end(&self, outcome: Outcome) -> String {
        let Reply::Data(Json::String(upid)) = outcome.unwrap() else { panic!("no task") };
        loop {
            if let TaskState::Stopped { exit, .. } =
                &self.site.pve_state().tasks.get(&upid).unwrap().state
            {
                return exit.clone();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn upload(&self, content: &str, name: &str, bytes: &[u8], more: Json) -> String {
        let blob = self.site.blobs.write(bytes).unwrap();
        let length = u64::try_from(bytes.len()).unwrap();
        let temporary = "/var/tmp/pveupload-00".to_owned();
        let file = Upload { blob, length, temporary, contacted: "pve1".to_owned() };
        let mut sent = json!({ "content": content, "filename": name });
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = "/nodes/pve1/storage/dir/upload";
        let outcome = self.send("root@pam", Method::Post, path, sent, Some(file)).await;
        self.end(outcome).await
    }

    async fn download(&self, sent: Json) -> String {
        let path = "/nodes/pve1/storage/dir/download-url";
        let outcome = self.send("root@pam", Method::Post, path, sent, None).await;
        self.end(outcome).await
    }

    async fn volumes(&self) -> Vec<String> {
        let path = "/nodes/pve1/storage/dir/content";
        let list = self.data(Method::Get, path, json!({})).await;
        let text = |entry: &Json| entry["volid"].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(text).collect()
    }
}

#[tokio::test]
async fn storage_sections_can_be_created_updated_and_deleted() {
    let bench = StorageTestBench::new();
    let add = |sent| bench.data(Method::Post, "/storage", sent);
    let new =
        json!({ "storage": "iso-store", "type": "dir", "path": "/srv//iso/", "content": "iso" });
    assert_eq!(add(new.clone()).await, json!({ "storage": "iso-store", "type": "dir" }));
    assert_eq!(
        bench.rejected(Method::Post, "/storage", new).await,
        "500 create storage failed: storage ID 'iso-store' already defined"
    );
    let section = bench.data(Method::Get, "/storage/iso-store", json!({})).await;
    assert_eq!(section["path"], "/srv/iso");
    assert_eq!(section["content"], "iso");
    assert_eq!(section["digest"].as_str().unwrap().len(), 40);

    let change = |sent| bench.rejected(Method::Put, "/storage/iso-store", sent);
    assert_eq!(
        change(json!({ "delete": "path" })).await,
        "500 update storage failed: unable to delete required option 'path'"
    );
    assert_eq!(
        change(json!({ "sparse": 1 })).await,
        "500 update storage failed: unexpected property 'sparse'"
    );
    assert!(
        change(json!({ "content": "images", "digest": "0".repeat(40) }))
            .await
            .starts_with("500 update storage failed: detected modified configuration")
    );
    let disable = json!({ "disable": 1, "nodes": "pve2" });
    bench.data(Method::Put, "/storage/iso-store", disable).await;
    let section = bench.data(Method::Get, "/storage/iso-store", json!({})).await;
    assert_eq!((&section["disable"], &section["nodes"]), (&json!(1), &json!("pve2")));

    bench.data(Method::Delete, "/storage/iso-store", json!({})).await;
    assert_eq!(
        bench.rejected(Method::Get, "/storage/iso-store", json!({})).await,
        "500 storage 'iso-store' does not exist"
    );
    assert_eq!(
        bench.rejected(Method::Post, "/storage", json!({ "storage": "xy", "type": "lvm" })).await,
        "500 missing value for required option 'vgname'"
    );
}

#[tokio::test]
async fn host_lists_its_storages() {
    let bench = StorageTestBench::new();
    bench.add("lvmthin:vm-101-disk-0", "raw", 25 << 30);
    let list = |sent| bench.data(Method::Get, "/nodes/pve1/storage", sent);
    let all = list(json!({ "format": 1 })).await;
    let thin = &all[2];
    assert_eq!(thin["storage"], "lvmthin");
    assert_eq!((&thin["total"], &thin["used"]), (&json!(100_u64 << 30), &json!(25_u64 << 30)));
    assert_eq!(thin["used_fraction"], json!(0.25));
    assert_eq!(thin["formats"], json!({ "default": "raw", "supported": ["raw"] }));
    let names = |list: Json| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it["storage"].as_str().unwrap().into()).collect()
    };
    assert_eq!(names(list(json!({ "content": "vztmpl,snippets" })).await), ["dir"]);
    assert_eq!(names(list(json!({ "target": "pve2" })).await), ["nfs"]);
    assert_eq!(
        bench.rejected(Method::Get, "/nodes/pve1/storage", json!({ "storage": "nope" })).await,
        "400 Parameter verification failed. [storage: No such storage.]"
    );
    bench.site.pve_state().storages.get_mut("nfs").unwrap().nodes.insert("pve2".to_owned());
    let status = bench.data(Method::Get, "/nodes/pve1/storage/nfs/status", json!({})).await;
    assert_eq!((&status["active"], &status["total"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn volume_list_is_filtered_by_privileges() {
    let bench = StorageTestBench::new();
    bench.add("dir:iso/b.iso", "iso", 1 << 20);
    bench.add("dir:iso/A.iso", "iso", 1 << 20);
    bench.add("dir:101/vm-101-disk-0.qcow2", "qcow2", 1 << 30);
    bench.add("dir:9/base-9-disk-0.raw/102/vm-102-disk-0.qcow2", "qcow2", 1 << 30);
    let clone = "dir:9/base-9-disk-0.raw/102/vm-102-disk-0.qcow2";
    assert_eq!(
        bench.volumes().await,
        ["dir:101/vm-101-disk-0.qcow2", clone, "dir:iso/A.iso", "dir:iso/b.iso"]
    );
    let role = |path: &str, role: &str| AclEntry {
        path: path.to_owned(),
        who: "ops@pve".to_owned(),
        role: role.to_owned(),
        propagate: true,
    };
    bench.site.pve_state().access.users.insert(
        "ops@pve".to_owned(),
        crate::pve_state::User { password: None, enabled: true, expires: 0, comment: None },
    );
    let acl = [role("/storage/dir", "PVEDatastoreUser"), role("/vms/101", "PVEVMAdmin")];
    bench.site.pve_state().access.acl.extend(acl);
    let path = "/nodes/pve1/storage/dir/content";
    let list = bench.send("ops@pve", Method::Get, path, json!({}), None).await.unwrap();
    let Reply::Data(Json::Array(list)) = list else { panic!("no list") };
    assert_eq!(list.len(), 3);
    assert_eq!(list[0]["vmid"], 101);
    assert_eq!(list[1]["format"], "iso");
    let of_guest = bench.data(Method::Get, path, json!({ "vmid": 102 })).await;
    assert_eq!(of_guest[0]["volid"], clone);
    assert_eq!(of_guest[0]["parent"], "../9/base-9-disk-0.raw");
}

#[tokio::test]
async fn volumes_can_be_allocated_and_deleted() {
    let bench = StorageTestBench::new();
    let path = "/nodes/pve1/storage/lvmthin/content";
    let new = json!({ "vmid": 100, "filename": "vm-100-disk-5", "size": "1G" });
    assert_eq!(bench.data(Method::Post, path, new).await, "lvmthin:vm-100-disk-5");
    let wrong = json!({ "vmid": 100, "filename": "a.raw", "size": "1", "format": "qcow2" });
    assert_eq!(
        bench.rejected(Method::Post, path, wrong).await,
        "400 Parameter verification failed. [format: different storage formats (qcow2 != raw)]"
    );
    let disk = format!("{path}/lvmthin:vm-100-disk-5");
    let info = bench.data(Method::Get, &disk, json!({})).await;
    assert_eq!(
        info,
        json!({ "format": "raw", "path": "/dev/pve/vm-100-disk-5", "size": 1 << 30, "used": 0 })
    );
    assert_eq!(
        bench.rejected(Method::Put, &disk, json!({ "protected": 1 })).await,
        "500 attribute 'protected' is not supported for storage type 'lvmthin'"
    );
    let gone = bench.send("root@pam", Method::Delete, &disk, json!({}), None).await;
    assert_eq!(bench.end(gone).await, "OK");
    assert_eq!(bench.data(Method::Delete, &disk, json!({ "delay": 5 })).await, Json::Null);
    let other = format!("{path}/dir:iso/a.iso");
    assert_eq!(
        bench.rejected(Method::Delete, &other, json!({})).await,
        "400 Parameter verification failed. [volume: storage ID mismatch (dir != lvmthin)\n]"
    );
    assert_eq!(
        bench
            .rejected(Method::Get, "/nodes/pve1/storage/dir/content/dir:iso/n.iso", json!({}))
            .await,
        "500 volume_size_info on 'dir:iso/n.iso' failed - no format"
    );
}

#[tokio::test]
async fn protected_backup_cannot_be_deleted() {
    let bench = StorageTestBench::new();
    let backup = "backup/vzdump-qemu-101-2024_01_01-00_00_00.vma.zst";
    bench.add(&format!("dir:{backup}"), "raw", 4096);
    let path = format!("/nodes/pve1/storage/dir/content/{backup}");
    bench.data(Method::Put, &path, json!({ "notes": "before\nthe move", "protected": 1 })).await;
    let list = bench.data(Method::Get, "/nodes/pve1/storage/dir/content", json!({})).await;
    assert_eq!((&list[0]["notes"], &list[0]["protected"]), (&json!("before"), &json!(1)));
    let end = bench.send("root@pam", Method::Delete, &path, json!({}), None).await;
    let text = format!("cannot remove protected volume '{backup}' on 'dir'");
    assert_eq!(bench.end(end).await, text);
    bench.data(Method::Put, &path, json!({ "protected": 0 })).await;
    let end = bench.send("root@pam", Method::Delete, &path, json!({}), None).await;
    assert_eq!(bench.end(end).await, "OK");
}
