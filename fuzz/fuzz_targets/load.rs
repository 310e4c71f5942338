//! Fuzz target: loading an inventory must not panic, whatever its bytes are. The first byte splits the rest into
//! cluster.yaml and nodes.yaml.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use talmox_model::load::{ClusterFiles, File, Parsed};

fuzz_target!(|data: &[u8]| {
    let Some((split, bytes)) = data.split_first() else { return };
    let at = bytes.len() * usize::from(*split) / 255;
    let file = |path: &str, bytes: &[u8]| {
        Some(File { path: PathBuf::from(path), content: Ok(bytes.to_vec()) })
    };
    let parsed = Parsed::new(vec![ClusterFiles {
        default_name: "fuzz".to_owned(),
        cluster: file("cluster.yaml", &bytes[..at]),
        nodes: file("nodes.yaml", &bytes[at..]),
        ..ClusterFiles::default()
    }]);
    let inventory = parsed.check_with(|_, _| Ok(bytes.to_vec()));
    for cluster in &inventory.clusters {
        for node in &cluster.nodes {
            cluster.explain(node);
        }
    }
});
