//! Loads inventories and renders them with one bundle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_model::{Inventory, Severity};
use talmox_plan::desired::{
    DeriveError, Inputs, Phase, Rendered, Renderer, needed_files, needed_secrets,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self, Bundle};
use talmox_talos_config::time::UnixTime;
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node as Yaml;

/// One secrets bundle for all tests, because the generation of RSA keys is slow.
pub(crate) fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let now = UnixTime::from_seconds(1_700_000_000);
        secrets::generate(now, &mut SystemRandomness::new()).unwrap()
    })
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

pub(crate) fn example(name: &str) -> Inventory {
    let folder = examples().join(name);
    let file = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).ok().map(|bytes| File { path, content: Ok(bytes) })
    };
    check(ClusterFiles {
        default_name: name.to_owned(),
        cluster: file("cluster.yaml"),
        nodes: file("nodes.yaml"),
        ..ClusterFiles::default()
    })
}

/// An inventory in a single file.
pub(crate) fn inventory(text: &str) -> Inventory {
    let path = PathBuf::from("cluster.yaml");
    check(ClusterFiles {
        default_name: "test".to_owned(),
        cluster: Some(File { path, content: Ok(text.as_bytes().to_vec()) }),
        ..ClusterFiles::default()
    })
}

fn check(files: ClusterFiles) -> Inventory {
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    let errors: Vec<_> =
        inventory.diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    inventory
}

/// The name and the result of rendering of each node. All references to secrets resolve to `secret-of-a-test`.
pub(crate) fn render(
    inventory: &Inventory,
    phase: Phase,
) -> Result<Vec<(String, Rendered)>, DeriveError> {
    let cluster = &inventory.clusters[0];
    let secrets = needed_secrets(cluster)
        .into_iter()
        .map(|reference| (reference.span, SecretText::new("secret-of-a-test")))
        .collect();
    let files = needed_files(cluster)
        .into_iter()
        .map(|(span, path)| {
            let source = inventory.sources.get(span.source).path().unwrap();
            (span, fs::read_to_string(source.parent().unwrap().join(path)).unwrap())
        })
        .collect();
    let inputs = Inputs { cluster, bundle: bundle(), secrets: &secrets, files: &files, phase };
    let renderer = Renderer::new(&inputs)?;
    let node = |node: &talmox_model::Node| Ok((node.name.value.to_string(), renderer.node(node)?));
    cluster.nodes.iter().map(node).collect()
}

/// The config of one node, with functions that read parts of it.
pub(crate) struct Parts(Config);

impl Parts {
    pub(crate) fn of(rendered: &Rendered) -> Self {
        Self(Config::parse(rendered.config.expose(), Release::default()).unwrap())
    }

    /// The text of a scalar in the v1alpha1 document.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.node(path).and_then(|node| node.as_str().map(str::to_owned))
    }

    pub(crate) fn node(&self, path: &str) -> Option<&Yaml> {
        let keys: Vec<&str> = path.split('/').collect();
        self.0.v1alpha1().unwrap().get(&keys)
    }

    /// The text of one key in each item of a list.
    pub(crate) fn each(&self, path: &str, key: &str) -> Vec<String> {
        let items = self.node(path).and_then(Yaml::as_seq).map(|seq| seq.items.as_slice());
        let value = |item: &Yaml| item.as_map()?.get(key)?.as_str().map(str::to_owned);
        items.unwrap_or_default().iter().filter_map(value).collect()
    }

    /// The kind and name of each other document.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let further = self.0.documents().skip(1);
        further
            .map(|document| match document.name() {
                Some(name) => format!("{} {name}", document.kind()),
                None => document.kind().to_owned(),
            })
            .collect()
    }
}
