//! Add-on settings.

use serde_json::{Value as Json, json};
use talmox_yaml::Node;

use crate::builtin_addon::BuiltinAddon;
use crate::language::{Context, Element, Explained, List, Schemas, Setting, mapping, read_mapping};
use crate::source::Span;
use crate::value::{
    AddonWait, Chart, ChartValues, ChartVersion, Checksum, FilePath, Handover, HttpUrl,
    NamespaceName,
};

mapping! {
    /// Software that is installed into the cluster once it runs: a Helm chart, manifests, or an add-on that talmox
    /// knows.
    called "an add-on"
    pub struct Addon {
        /// Name of the add-on.
        name: Setting<String>,
        /// Helm chart: a name in `repo`, an `oci://` address, or the path of a folder or .tgz file.
        chart: Setting<Chart>,
        /// URL of the Helm repository that has the chart.
        repo: Setting<HttpUrl>,
        /// Exact version of the chart. Required for charts of repositories and registries.
        version: Setting<ChartVersion>,
        /// Add-on that talmox knows, such as `cilium`.
        builtin: Setting<String>,
        /// Values of the chart. `{secret: path}`, `{env: NAME}` and `{command: […]}` are references to secrets.
        values: Setting<ChartValues>,
        /// Files with values of the chart. `values` wins over them.
        values_files: List<FilePath>,
        /// Files or folders of manifests, `{url, sha256}`, or `{kustomize: folder}`.
        manifests ["files"]: List<ManifestSource>,
        /// URL of a manifest.
        url: Setting<HttpUrl>,
        /// SHA-256 checksum of the manifest at `url`.
        checksum ["sha256"]: Setting<Checksum>,
        /// Namespace of the objects that name none.
        namespace: Setting<NamespaceName>,
        /// Create `namespace` if it does not exist. Default: true.
        create_namespace: Setting<bool>,
        /// Add-ons that are applied before this one.
        needs: List<String>,
        /// Wait until the workloads run: true, false or a duration. Default: up to `timeouts.health`.
        wait: Setting<AddonWait>,
        /// `gitops`: stop managing the add-on once Argo CD or Flux manages one of its objects.
        handover: Setting<Handover>,
    }
}

mapping! {
    /// Manifests of an add-on that are not files of the inventory.
    called "manifests of an add-on"
    pub struct ManifestEntry {
        /// URL of a manifest.
        url: Setting<HttpUrl>,
        /// SHA-256 checksum of the manifest at `url`.
        checksum ["sha256"]: Setting<Checksum>,
        /// Folder with a kustomization.yaml.
        kustomize: Setting<FilePath>,
    }
}

/// Item of `manifests`.
#[derive(Clone, Debug, PartialEq)]
pub enum ManifestSource {
    /// File or folder of manifests.
    Path(FilePath),
    Entry(ManifestEntry),
}

impl Element for ManifestSource {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if value.as_map().is_some() {
            let mut entry =
                ManifestEntry { span: Some(cx.span(value)), ..ManifestEntry::default() };
            return read_mapping(&mut entry, value, cx).then_some(Self::Entry(entry));
        }
        if value.as_str().is_some_and(|text| text.contains("://")) {
            let problem = "a URL of manifests needs a checksum".to_owned();
            cx.bad_value(value, problem, "`{url: https://…, sha256: …}`");
            return None;
        }
        FilePath::decode(value, cx).map(Self::Path)
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let path = <FilePath as Element>::schema(schemas);
        json!({ "anyOf": [path, schemas.mapping::<ManifestEntry>()] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        match self {
            Self::Path(file) => Element::explain(file, path, span, out),
            Self::Entry(entry) => Element::explain(entry, path, span, out),
        }
    }
}

/// Origin of the chart of an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartOrigin {
    Repository {
        url: String,
        name: String,
        version: String,
    },
    /// OCI registry.
    Registry {
        address: String,
        version: String,
    },
    /// Folder or .tgz file, as the inventory names it.
    Path(String),
}

impl Addon {
    /// Add-on of the table of built-in add-ons.
    pub fn builtin_addon(&self) -> Option<&'static BuiltinAddon> {
        BuiltinAddon::named(self.builtin.get()?)
    }

    /// Origin of the chart, and the position of the setting that names the chart. None for an add-on without a chart,
    /// and for one whose chart lacks a setting.
    pub fn chart_origin(&self) -> Option<(Span, ChartOrigin)> {
        let version = self.version.get().map(ToString::to_string);
        if let Some(known) = self.builtin_addon() {
            let origin = ChartOrigin::Repository {
                url: known.repo.to_owned(),
                name: known.chart.to_owned(),
                version: version.unwrap_or_else(|| known.version.to_owned()),
            };
            return Some((self.builtin.span()?, origin));
        }
        let chart = self.chart.spanned()?;
        let name = chart.value.as_str().to_owned();
        let origin = if chart.value.is_registry() {
            ChartOrigin::Registry { address: name, version: version? }
        } else if let Some(repo) = self.repo.get() {
            ChartOrigin::Repository { url: repo.to_string(), name, version: version? }
        } else {
            ChartOrigin::Path(name)
        };
        Some((chart.span, origin))
    }

    /// Namespace of the objects that name none.
    pub fn target_namespace(&self) -> Option<&str> {
        let own = self.namespace.get().map(NamespaceName::as_str);
        own.or_else(|| self.builtin_addon().map(|known| known.namespace))
    }
}
