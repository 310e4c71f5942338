//! etcd snapshots: the database file followed by its SHA-256.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use prost::Message;
use talmox_lab_kube::SavedStore;

use super::EtcdCluster;
use super::bolt::{self, Bucket};
use super::version::storage_version;

/// Length in bytes of the checksum at the end of a snapshot.
const CHECKSUM_LENGTH: usize = SHA256_OUTPUT_LEN;
/// Bucket with the complete store of the lab. It is needed because the Kubernetes objects in the other buckets do not contain
/// all data of the store.
const LAB: &str = "talmox_lab";
const STORE: &[u8] = b"store";
/// Buckets of etcd that are empty in the lab.
const EMPTY_BUCKETS: [&str; 7] =
    ["alarm", "auth", "authRoles", "authUsers", "lease", "members", "members_removed"];

/// Key and value in the encoding of etcd. The bucket `key` contains them by revision.
#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// Database file of a member that runs this version of etcd.
pub(super) fn database(cluster: &EtcdCluster, etcd: &str) -> Result<Vec<u8>, String> {
    let store = cluster.store.save();
    let saved = serde_json::to_vec(&store).map_err(|error| error.to_string())?;
    let storage = storage_version(etcd).into_bytes();
    let mut meta = Bucket::from([
        (b"consistent_index".to_vec(), cluster.raft_index().to_be_bytes().to_vec()),
        (b"term".to_vec(), cluster.term.to_be_bytes().to_vec()),
    ]);
    // etcd before 3.6 does not store the version of its data format.
    if !etcd.starts_with("3.5.") {
        meta.insert(b"storageVersion".to_vec(), storage.clone());
    }
    let mut buckets: BTreeMap<&str, Bucket> =
        EMPTY_BUCKETS.into_iter().map(|name| (name, Bucket::new())).collect();
    buckets.insert("cluster", Bucket::from([(b"clusterVersion".to_vec(), storage)]));
    buckets.insert("key", keys(&store));
    buckets.insert("meta", meta);
    buckets.insert(LAB, Bucket::from([(STORE.to_vec(), saved)]));
    Ok(bolt::write(&buckets, cluster.raft_index()))
}

/// Bucket with every object, by the revision of its last change.
fn keys(store: &SavedStore) -> Bucket {
    let mut keys = Bucket::new();
    let mut add = |main: u64, key: &str, value: Vec<u8>| {
        let revision = i64::try_from(main).unwrap_or(i64::MAX);
        let entry = KeyValue {
            key: key.as_bytes().to_vec(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            value,
        };
        // Objects that were changed in the same transaction have different sub-revisions.
        let mut places = (0_u64..).map(|sub| revision_key(main, sub));
        let free = places.find(|place| !keys.contains_key(place)).unwrap_or_default();
        keys.insert(free, entry.encode_to_vec());
    };
    let mut last = 0;
    for (revision, key, value) in store.keys() {
        last = last.max(revision);
        add(revision, &key, value);
    }
    // Kubernetes updates this key regularly for compaction, so a key with the last revision always exists.
    if last < store.revision() {
        add(store.revision(), "compact_rev_key", store.revision().to_string().into_bytes());
    }
    keys
}

fn revision_key(main: u64, sub: u64) -> Vec<u8> {
    [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat()
}

/// Appends the checksum to a database.
pub(super) fn with_checksum(mut database: Vec<u8>) -> Vec<u8> {
    let sum = digest(&SHA256, &database);
    database.extend(sum.as_ref());
    database
}

/// Reads a snapshot. A plain copy of a database file has no checksum at its end.
pub(super) fn read(bytes: &[u8], skip_hash_check: bool) -> Result<SavedStore, String> {
    let has_sum = bytes.len() % 512 == CHECKSUM_LENGTH;
    if !has_sum && !skip_hash_check {
        return Err("snapshot missing hash but --skip-hash-check=false".to_owned());
    }
    let end = if has_sum { bytes.len() - CHECKSUM_LENGTH } else { bytes.len() };
    let (data, sum) = bytes.split_at(end);
    if has_sum && !skip_hash_check && digest(&SHA256, data).as_ref() != sum {
        return Err("expected sha256 does not match the snapshot's".to_owned());
    }
    let saved = bolt::value(data, LAB, STORE);
    let saved = saved.and_then(|saved| serde_json::from_slice(&saved).ok());
    saved.ok_or_else(|| "invalid database".to_owned())
}
