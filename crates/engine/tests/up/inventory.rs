//! Inventories and their desired states.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use talmox_model::inventory::ManifestSource;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_model::{Inventory, Severity};
use talmox_plan::desired::{Desired, Inputs, Login, Phase, needed_secrets};
use talmox_plan::rights::Grants;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self, Bundle};
use talmox_talos_config::time::UnixTime;

/// Inventory of a cluster without its nodes. The timeouts are long because the test machine may be busy. The lab itself does
/// not need them.
pub(crate) const HEAD: &str = "
cluster_name: home
talos_version: v1.11.2
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1], vip: 10.0.0.20}
proxmox: {endpoint: 'https://pve1:8006', node: pve1, pool: talos, vmid_range: 300-399}
timeouts: {task: 30m, image: 60m, boot: 60m, bootstrap: 60m, health: 60m}
";

/// Default boot way of the tests, unless their inventories name another one. Most problems are possible with this boot way,
/// and tests count its requests. The default of talmox has separate tests (`first_config.rs`).
const DEFAULTS: &str = "boot: cloudinit\n";

pub(crate) const HOME: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
  - {name: cp-2, ip: 10.0.0.12}
  - {name: cp-3, ip: 10.0.0.13}
workers:
  - {name: wk-1, ip: 10.0.0.21}
  - {name: wk-2, ip: 10.0.0.22}
";

/// One control plane and one worker.
pub(crate) const PAIR: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
workers:
  - {name: wk-1, ip: 10.0.0.21}
";

/// Inventory with three control planes and two workers.
pub(crate) fn home() -> String {
    format!("{HEAD}{HOME}")
}

pub(crate) fn pair() -> String {
    format!("{HEAD}{PAIR}")
}

/// The inventory `pair` with shorter timeouts for nodes that do not come up.
pub(crate) fn short_timeouts() -> String {
    with_short_timeouts(&pair())
}

pub(crate) fn with_short_timeouts(text: &str) -> String {
    let times = "boot: 60m, bootstrap: 60m, health: 60m";
    assert!(text.contains(times), "{text}");
    text.replace(times, "boot: 5m, bootstrap: 10m, health: 15m")
}

/// One bundle for all tests, because generating a bundle is slow.
pub(crate) fn bundle() -> Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(another_bundle).clone()
}

/// The secrets of another cluster.
pub(crate) fn another_bundle() -> Bundle {
    let now = UnixTime::from_seconds(1_700_000_000);
    secrets::generate(now, &mut SystemRandomness::new()).unwrap()
}

/// The rights that an inventory needs.
pub(crate) fn grants(text: &str) -> Grants {
    Grants::of(&inventory(text).clusters[0])
}

fn inventory(text: &str) -> Inventory {
    let files = ClusterFiles {
        default_name: "test".to_owned(),
        defaults: Some(File {
            path: PathBuf::from("defaults.yaml"),
            content: Ok(DEFAULTS.as_bytes().to_vec()),
        }),
        cluster: Some(File {
            path: PathBuf::from("cluster.yaml"),
            content: Ok(text.as_bytes().to_vec()),
        }),
        ..ClusterFiles::default()
    };
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    let errors: Vec<_> =
        inventory.diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    inventory
}

/// The desired state of an inventory with these secrets.
pub(crate) fn desired(text: &str, bundle: &Bundle) -> Desired {
    let inventory = inventory(text);
    let cluster = &inventory.clusters[0];
    let secrets = needed_secrets(cluster)
        .into_iter()
        .map(|reference| (reference.span, SecretText::new("secret-of-a-test")))
        .collect();
    let inputs =
        Inputs { cluster, bundle, secrets: &secrets, files: &BTreeMap::new(), phase: Phase::Final };
    let login = Login { user: "talmox@pve".to_owned(), token: Some("ci".to_owned()) };
    let items = cluster.file.addons.values().flat_map(|addon| addon.manifests.iter());
    let manifests = items.filter_map(|item| match &item.value {
        ManifestSource::Path(path) => Some((item.span, Ok(vec![super::addon::manifest(&path.0)]))),
        ManifestSource::Entry(_) => None,
    });
    Desired::of(&inputs, &manifests.collect(), login).unwrap()
}
