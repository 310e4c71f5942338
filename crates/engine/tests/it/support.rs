//! Loads inventories, and generates one secrets bundle for all tests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_model::{Inventory, Severity};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::{self, Bundle};
use talmox_talos_config::time::UnixTime;

/// One bundle for all tests, because generating RSA keys is slow.
pub(crate) fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let now = UnixTime::from_seconds(1_700_000_000);
        secrets::generate(now, &mut SystemRandomness::new()).unwrap()
    })
}

/// Reads an inventory that consists of a single file.
pub(crate) fn inventory(text: &str) -> Inventory {
    let path = PathBuf::from("cluster.yaml");
    let files = ClusterFiles {
        default_name: "test".to_owned(),
        cluster: Some(File { path, content: Ok(text.as_bytes().to_vec()) }),
        ..ClusterFiles::default()
    };
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    let errors: Vec<_> =
        inventory.diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    inventory
}
