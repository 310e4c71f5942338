//! Calls about storages and their volumes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{FileName, NodeName, StorageId, Upid, VmId, VolumeId};
use crate::request::{Request, Scope};
use crate::wire::{Decode, Fields, Unreadable};

/// Storage in the configuration of the Proxmox cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub storage: StorageId,
    /// Type of the storage, such as `dir`, `lvmthin` or `zfspool`.
    pub kind: String,
    pub content: Vec<String>,
    pub shared: bool,
    pub disabled: bool,
    /// Nodes that have the storage. An empty list means all nodes.
    pub nodes: Vec<NodeName>,
}

impl Decode for Storage {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let nodes = fields.list("nodes").into_iter().map(|node| node.parse());
        Ok(Self {
            storage: fields.need("storage")?,
            kind: fields.text("type").unwrap_or_default(),
            content: fields.list("content"),
            shared: fields.flag("shared"),
            disabled: fields.flag("disable"),
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}

pub fn list() -> Request<Vec<Storage>> {
    Request::get(&[&"storage"])
}

/// Storage as reported by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageStatus {
    /// Name of the storage. It is absent in the answer about a single storage.
    pub storage: Option<StorageId>,
    pub kind: String,
    pub content: Vec<String>,
    pub active: bool,
    pub enabled: bool,
    pub shared: bool,
    /// Size in bytes.
    pub total: Option<u64>,
    pub used: Option<u64>,
    pub avail: Option<u64>,
}

impl Decode for StorageStatus {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            storage: fields.id("storage")?,
            kind: fields.text("type").unwrap_or_default(),
            content: fields.list("content"),
            active: fields.flag("active"),
            enabled: fields.flag("enabled"),
            shared: fields.flag("shared"),
            total: fields.number("total"),
            used: fields.number("used"),
            avail: fields.number("avail"),
        })
    }
}

/// Lists the storages of a node that the caller may use.
pub fn on_node(node: &NodeName) -> Request<Vec<StorageStatus>> {
    Request::get(&[&"nodes", node, &"storage"]).on(node)
}

pub fn status(node: &NodeName, storage: &StorageId) -> Request<StorageStatus> {
    Request::get(&[&"nodes", node, &"storage", storage, &"status"]).on(node)
}

/// Content type of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Iso,
    /// Images from which VM disks are created.
    Import,
    /// Disks of VMs.
    Images,
}

impl Content {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Import => "import",
            Self::Images => "images",
        }
    }
}

/// Volume of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub volid: VolumeId,
    pub format: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of creation, in seconds since 1970.
    pub created: Option<u64>,
    /// VM that the volume belongs to.
    pub vmid: Option<VmId>,
}

impl Decode for Volume {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            volid: fields.need("volid")?,
            format: fields.text("format"),
            size: fields.number("size"),
            created: fields.number("ctime"),
            // The value 0 means that no VM owns the volume.
            vmid: fields.text("vmid").and_then(|vmid| vmid.parse().ok()),
        })
    }
}

/// Lists the volumes of a storage that the caller may see.
pub fn content(
    node: &NodeName,
    storage: &StorageId,
    content: Option<Content>,
    vmid: Option<VmId>,
) -> Request<Vec<Volume>> {
    Request::get(&[&"nodes", node, &"storage", storage, &"content"])
        .with_some("content", content.map(Content::as_str))
        .with_some("vmid", vmid)
        .on(node)
}

/// Properties of a volume. A host reads them from the volume itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    pub format: Option<String>,
    /// Size of the disk inside the volume, in bytes.
    pub size: u64,
    /// Space that the volume uses on the storage, in bytes.
    pub used: Option<u64>,
}

impl Decode for VolumeInfo {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let size = fields.number("size");
        Ok(Self {
            format: fields.text("format"),
            size: size.ok_or_else(|| Unreadable("`size` is missing".to_owned()))?,
            used: fields.number("used"),
        })
    }
}

/// Reads the properties of a volume. Proxmox rejects volumes that are not images.
pub fn volume(node: &NodeName, volume: &VolumeId) -> Request<VolumeInfo> {
    let storage = volume.storage();
    Request::get(&[&"nodes", node, &"storage", storage, &"content", volume]).on(node)
}

/// Deletes a volume. For files, the deletion of a missing file succeeds. Other volumes must exist.
pub fn delete(node: &NodeName, volume: &VolumeId) -> Request<Upid> {
    let storage = volume.storage();
    Request::delete(&[&"nodes", node, &"storage", storage, &"content", volume])
        .on(node)
        .using_storages([storage])
}

impl Decode for VolumeId {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let text = data.as_str().ok_or_else(|| Unreadable("the volume is missing".to_owned()))?;
        Ok(text.parse()?)
    }
}

/// Allocates an empty volume for a VM. The VM does not have to exist yet. The call starts no task.
pub fn allocate(
    node: &NodeName,
    storage: &StorageId,
    vmid: VmId,
    name: &FileName,
    size_kib: u64,
) -> Request<VolumeId> {
    Request::post(&[&"nodes", node, &"storage", storage, &"content"])
        .with("vmid", vmid)
        .with("filename", name)
        .with("size", size_kib)
        .on(node)
        .using_storages([storage])
}

/// Expected checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Name of the algorithm, such as `sha256` or `sha512`.
    pub algorithm: String,
    /// Digest in hexadecimal digits.
    pub value: String,
}

/// File that a host downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    pub url: String,
    pub content: Content,
    pub name: FileName,
    /// Expected checksum. With a checksum, an existing file with this checksum is a success. Without a checksum, an
    /// existing file is an error.
    pub checksum: Option<Checksum>,
    /// `gz`, `lzo`, `zst` or `bz2`. Allowed for ISO images only.
    pub compression: Option<String>,
    pub verify_certificates: bool,
}

pub fn download(node: &NodeName, storage: &StorageId, download: &Download) -> Request<Upid> {
    let checksum = download.checksum.as_ref();
    let request = Request::post(&[&"nodes", node, &"storage", storage, &"download-url"])
        .with("url", &download.url)
        .with("content", download.content.as_str())
        .with("filename", &download.name)
        .with_some("checksum-algorithm", checksum.map(|checksum| &checksum.algorithm))
        .with_some("checksum", checksum.map(|checksum| &checksum.value))
        .with_some("compression", download.compression.as_ref())
        .on(node)
        .using_storages([storage]);
    if download.verify_certificates { request } else { request.with("verify-certificates", 0) }
}

/// Metadata of the file at a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlMetadata {
    pub filename: Option<String>,
    pub mimetype: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
}

impl Decode for UrlMetadata {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let Ok(fields) = Fields::of(data) else { return Ok(Self::default()) };
        Ok(Self {
            filename: fields.text("filename"),
            mimetype: fields.text("mimetype"),
            size: fields.number("size"),
        })
    }
}

/// Reads the metadata of the file at a URL. The host sends the request to the URL.
pub fn url_metadata(node: &NodeName, url: &str, verify_certificates: bool) -> Request<UrlMetadata> {
    let request = Request::get(&[&"nodes", node, &"query-url-metadata"]).with("url", url).on(node);
    if verify_certificates { request } else { request.with("verify-certificates", 0) }
}

/// Upload of a file. A client sends it together with the content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub node: NodeName,
    pub storage: StorageId,
    pub content: Content,
    pub name: FileName,
    pub checksum: Option<Checksum>,
}

impl Upload {
    pub fn scope(&self) -> Scope {
        Scope { node: Some(self.node.clone()), storages: [self.storage.clone()].into() }
    }

    /// Volume ID of the file after the upload.
    pub fn volume(&self) -> Result<VolumeId, crate::id::BadId> {
        format!("{}:{}/{}", self.storage, self.content.as_str(), self.name).parse()
    }

    /// Request of an upload, without the body. The body contains the file.
    pub fn request(&self) -> Request<Upid> {
        let Self { node, storage, .. } = self;
        Request::post(&[&"nodes", node, &"storage", storage, &"upload"])
            .on(node)
            .using_storages([storage])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids() -> (NodeName, StorageId) {
        ("pve1".parse().unwrap(), "local".parse().unwrap())
    }

    #[test]
    fn volume_names_are_escaped_in_delete_requests() {
        let (node, storage) = ids();
        let request = delete(&node, &"local:import/talos.qcow2".parse().unwrap());
        assert_eq!(
            request.operation(),
            "DELETE /nodes/pve1/storage/local/content/local%3Aimport%2Ftalos.qcow2"
        );
        assert_eq!(request.scope().storages, [storage.clone()].into());
        let listing = content(&node, &storage, Some(Content::Import), None);
        assert_eq!(listing.target(), "/api2/json/nodes/pve1/storage/local/content?content=import");
        let made = allocate(
            &node,
            &storage,
            VmId::new(300).unwrap(),
            &"vm-300-disk-5".parse().unwrap(),
            1024,
        );
        assert_eq!(made.body().unwrap(), "vmid=300&filename=vm-300-disk-5&size=1024");
    }

    #[test]
    fn download_requests_contain_the_checksum() {
        let (node, storage) = ids();
        let mut desired = Download {
            url: "https://factory.talos.dev/image/x".to_owned(),
            content: Content::Import,
            name: "talos.qcow2".parse().unwrap(),
            checksum: None,
            compression: None,
            verify_certificates: true,
        };
        assert_eq!(
            download(&node, &storage, &desired).body().unwrap(),
            "url=https%3A%2F%2Ffactory.talos.dev%2Fimage%2Fx&content=import&filename=talos.qcow2"
        );
        desired.checksum =
            Some(Checksum { algorithm: "sha256".to_owned(), value: "ab".to_owned() });
        desired.verify_certificates = false;
        let body = download(&node, &storage, &desired).body().unwrap();
        assert!(
            body.ends_with("&checksum-algorithm=sha256&checksum=ab&verify-certificates=0"),
            "{body}"
        );
        let asked = url_metadata(&node, "https://a/b?c", true);
        assert_eq!(
            asked.target(),
            "/api2/json/nodes/pve1/query-url-metadata?url=https%3A%2F%2Fa%2Fb%3Fc"
        );
    }

    #[test]
    fn storage_content_is_decoded() {
        let data = json!([
            {"volid": "local:import/x.qcow2", "size": "12", "ctime": 5, "format": "qcow2"},
            {"volid": "local-lvm:vm-300-disk-0", "vmid": 300, "size": 4_194_304},
        ]);
        let volumes = Vec::<Volume>::decode(&data).unwrap();
        assert_eq!((volumes[0].size, volumes[0].vmid), (Some(12), None));
        assert_eq!(volumes[1].vmid.unwrap().get(), 300);
        let status =
            StorageStatus::decode(&json!({"type": "dir", "content": "iso,import", "active": 1}))
                .unwrap();
        assert!(status.active && status.storage.is_none());
        let storage =
            Storage::decode(&json!({"storage": "nfs", "type": "nfs", "shared": 1, "nodes": "a,b"}))
                .unwrap();
        assert!(storage.shared && storage.nodes.len() == 2);
    }
}
