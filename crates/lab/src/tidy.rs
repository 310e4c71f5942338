//! Bytes that nobody refers to any more: replaced uploads, deleted images.
//!
//! Bytes may be shared, and a task may hold some that are not part of the world yet. So they go only
//! if nobody referred to them for a whole round in which they did not grow and nothing ran.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_lab_environment::stopped;
use talmox_lab_pve::{BlobId, Blobs, Site};
use tokio::sync::watch;

use crate::state::blobs_of;

/// In real time: longer than a silent upload is waited for.
const EVERY: Duration = Duration::from_mins(1);

/// What nobody referred to the last time, and its length.
type Unused = BTreeMap<BlobId, u64>;

pub(crate) async fn keep_tidy(site: Arc<Site>, mut stop: watch::Receiver<bool>) {
    let clock = Clock::real();
    let mut unused = Unused::new();
    loop {
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            () = stopped(&mut stop) => return,
        }
        if site.has_tasks() {
            unused.clear();
            continue;
        }
        let used = blobs_of(&site.world());
        // What cannot be removed now may go the next time.
        unused = sweep(&site.blobs, &used, &unused).unwrap_or_default();
    }
}

fn sweep(blobs: &Blobs, used: &BTreeSet<BlobId>, before: &Unused) -> io::Result<Unused> {
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
    fn only_what_lies_idle_goes() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let [used, idle, grows] =
            ["used", "idle", "grows"].map(|text| blobs.write(text.as_bytes()).unwrap());
        let refers = BTreeSet::from([used.clone()]);
        let first = sweep(&blobs, &refers, &Unused::new()).unwrap();
        assert_eq!(first.len(), 2);
        assert!(blobs.path(&idle).exists(), "not at the first look");
        std::fs::write(blobs.path(&grows), "grows more").unwrap();
        let second = sweep(&blobs, &refers, &first).unwrap();
        assert!(!blobs.path(&idle).exists());
        assert!(blobs.path(&used).exists() && blobs.path(&grows).exists());
        assert_eq!(second.keys().collect::<Vec<_>>(), [&grows]);
    }
}
