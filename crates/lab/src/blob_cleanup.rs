//! Removal of unused blobs: files of volume contents that no volume refers to, such as replaced uploads and deleted images.
//!
//! A running task may hold a blob that no volume refers to yet. So a blob is removed only if it was unused and did not grow for
//! a full interval. In addition, no task may run at the start and at the end of the interval.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_environment::stopped;
use talmox_lab_pve::{BlobId, Blobs, Site};
use tokio::sync::watch;

use crate::state::blobs_of;

/// Time between two cleanups, in real time. It is longer than the timeout of a stalled upload.
const INTERVAL: Duration = Duration::from_mins(1);

/// Blobs that were unused at the previous cleanup, with their lengths.
type Unused = BTreeMap<BlobId, u64>;

pub(crate) async fn remove_unused_blobs(site: Arc<Site>, mut stop: watch::Receiver<bool>) {
    let clock = Clock::real();
    let mut unused = Unused::new();
    loop {
        tokio::select! {
            () = clock.sleep(INTERVAL) => {}
            () = stopped(&mut stop) => return,
        }
        if site.has_tasks() {
            unused.clear();
            continue;
        }
        let used = blobs_of(&site.pve_state());
        // If a blob cannot be removed now, the next cleanups retry it.
        unused = remove_unused(&site.blobs, &used, &unused).unwrap_or_default();
    }
}

fn remove_unused(blobs: &Blobs, used: &BTreeSet<BlobId>, before: &Unused) -> io::Result<Unused> {
    let mut unused = Unused::new();
    for (blob, length) in blobs.list()? {
        if used.contains(&blob) {
            continue;
        }
        if before.get(&blob) == Some(&length) {
            std::fs::remove_file(blobs.path(&blob))?;
        } else {
            unused.insert(blob, length);
        }
    }
    Ok(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_blobs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let [used, idle, grows] =
            ["used", "idle", "grows"].map(|text| blobs.write(text.as_bytes()).unwrap());
        let refers = BTreeSet::from([used.clone()]);
        let first = remove_unused(&blobs, &refers, &Unused::new()).unwrap();
        assert_eq!(first.len(), 2);
        assert!(blobs.path(&idle).exists(), "removed in the first pass");
        std::fs::write(blobs.path(&grows), "grows more").unwrap();
        let second = remove_unused(&blobs, &refers, &first).unwrap();
        assert!(!blobs.path(&idle).exists());
        assert!(blobs.path(&used).exists() && blobs.path(&grows).exists());
        assert_eq!(second.keys().collect::<Vec<_>>(), [&grows]);
    }
}
