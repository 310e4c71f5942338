//! Charts of add-ons: from the inventory to objects.

use std::path::{Path, PathBuf};

use talmox_model::inventory::{Addon, ChartOrigin};
use talmox_model::value::{ChartValues, SecretRef};
use talmox_model::{Span, Spanned};
use talmox_plan::desired::ManifestFile;
use talmox_plan::manifest::{DEFAULT_NAMESPACE, Manifest, slug};
use talmox_plan::sha256::sha256_hex;
use talmox_talos_config::secret::SecretText;

use super::helm::{Helm, Template};
use super::lock_file::{LockEntry, LockFile, Vendored};
use super::{chart_file, objects, program};
use crate::choose::{Chosen, beside};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST_OWN};

/// Chart of an add-on.
#[derive(Debug)]
pub(crate) struct AddonChart<'a> {
    pub(crate) name: &'a str,
    pub(crate) addon: &'a Addon,
    pub(crate) origin: ChartOrigin,
    /// Position of the setting that names the chart.
    pub(crate) span: Span,
}

/// Text of the secret at a position of the inventory.
pub(crate) type SecretAt<'a> = &'a dyn Fn(&Spanned<SecretRef>) -> Option<SecretText>;

/// Charts of a cluster, in the order of the inventory.
pub(crate) fn charts(chosen: &Chosen) -> Vec<AddonChart<'_>> {
    chosen.cluster().file.addons.values().filter_map(AddonChart::of).collect()
}

impl<'a> AddonChart<'a> {
    /// Chart of an add-on. None for an add-on without a chart.
    pub(crate) fn of(addon: &'a Addon) -> Option<Self> {
        let (span, origin) = addon.chart_origin()?;
        Some(Self { name: addon.name.get()?, addon, origin, span })
    }

    /// Origin and version of the chart in one line, as the lock file records it.
    pub(crate) fn identity(&self) -> String {
        match &self.origin {
            ChartOrigin::Repository { url, name, version } => format!("{url} {name} {version}"),
            ChartOrigin::Registry { address, version } => format!("{address} {version}"),
            ChartOrigin::Path(path) => path.clone(),
        }
    }

    pub(crate) fn version(&self) -> Option<&str> {
        match &self.origin {
            ChartOrigin::Repository { version, .. } | ChartOrigin::Registry { version, .. } => {
                Some(version)
            }
            ChartOrigin::Path(_) => None,
        }
    }

    /// References to secrets in the values.
    pub(crate) fn secrets(&self) -> &'a [Spanned<SecretRef>] {
        self.addon.values.get().map(ChartValues::secrets).unwrap_or_default()
    }

    /// File with the stored objects of the chart, which `talmox addons vendor` writes.
    pub(crate) fn vendored_path(&self, chosen: &Chosen) -> PathBuf {
        self.vendored_beside(chosen.file())
    }

    /// File with the stored objects of the chart, for the cluster that `file` describes.
    pub(super) fn vendored_beside(&self, file: &Path) -> PathBuf {
        beside(file, "addons").join(format!("{}.yaml", slug(self.name)))
    }

    pub(crate) fn is_vendored(&self, chosen: &Chosen) -> bool {
        self.vendored_path(chosen).symlink_metadata().is_ok()
    }

    /// Operation for messages.
    fn doing(&self) -> String {
        format!("add-on {}", self.name)
    }

    /// Source of the objects for messages, such as `chart of cilium 1.16.5`.
    pub(super) fn label(&self) -> String {
        match self.version() {
            Some(version) => format!("chart of {} {version}", self.name),
            None => format!("chart of {}", self.name),
        }
    }

    /// Stored objects of the chart. Returns an error if they do not match the lock file and the inventory.
    pub(super) fn vendored(
        &self,
        chosen: &Chosen,
        lock: &LockFile,
    ) -> Result<ManifestFile, CommandError> {
        let path = self.vendored_path(chosen);
        let shown = path.display();
        let changed = |what: String| {
            let hint = format!("run `talmox addons vendor {}`", self.name);
            CommandError::failed(CommandCode::AddonChanged, what).hint(hint)
        };
        let recorded = lock.entries.get(self.name).and_then(|entry| entry.vendored.as_ref());
        let Some(recorded) = recorded else {
            return Err(changed(format!("{shown} is not recorded in addons.lock.yaml")));
        };
        let failed =
            || CommandError::failed(CommandCode::FileUnreadable, format!("cannot read {shown}"));
        let real = chosen.boundary().admit(&path).map_err(|error| failed().because(error))?;
        let bytes = regular_file::read(&real, LARGEST_OWN);
        let bytes = bytes.map_err(|error| failed().because(error))?;
        if sha256_hex(&bytes) != recorded.objects {
            return Err(changed(format!("{shown} was changed after it was written")));
        }
        if self.inputs(chosen)? != recorded.inputs {
            let what = format!("{}: the inventory changed after {shown} was written", self.doing());
            return Err(changed(what));
        }
        let text = String::from_utf8(bytes).map_err(|_| failed())?;
        Ok(ManifestFile { origin: shown.to_string(), text: text.into() })
    }

    /// Renders the chart with Helm. Records the digest of a chart that is used for the first time.
    pub(super) fn render(
        &self,
        chosen: &Chosen,
        lock: &mut LockFile,
        secret_at: SecretAt<'_>,
        api_versions: &[String],
    ) -> Result<Vec<Manifest>, CommandError> {
        let doing = self.doing();
        let helm = Helm::find(&doing)?;
        let workplace = program::workplace()?;
        let chart = match &self.origin {
            ChartOrigin::Path(path) => {
                let path = chosen.path_at(self.span, path);
                chart_file::digest(&path, chosen.boundary())?;
                std::path::absolute(&path).unwrap_or(path)
            }
            ChartOrigin::Repository { .. } | ChartOrigin::Registry { .. } => {
                let bytes = self.download(&helm, lock)?;
                let path = workplace.path().join("chart.tgz");
                std::fs::write(&path, bytes).map_err(|error| {
                    let message = format!("{doing}: cannot write the chart to a private folder");
                    CommandError::failed(CommandCode::FileUnwritable, message).because(error)
                })?;
                path
            }
        };
        let kubernetes = chosen.cluster().kubernetes_version().map(|version| version.to_string());
        let release = slug(self.name);
        let values = self.values(chosen, secret_at)?;
        let template = Template {
            release: &release,
            chart: &chart,
            namespace: self.addon.target_namespace().unwrap_or(DEFAULT_NAMESPACE),
            kubernetes: kubernetes.as_deref(),
            api_versions,
            values: &values,
        };
        let rendered = helm.template(&template, &doing).map_err(|error| {
            if self.secrets().is_empty() {
                return error;
            }
            // The output of Helm can contain values.
            let message = format!("{doing}: helm failed; its output may contain secrets");
            let hint = "run `helm template` with other values to see the error";
            CommandError::failed(CommandCode::AddonProgramFailed, message).hint(hint)
        })?;
        objects::of_chart(&self.label(), &rendered).map_err(|error| {
            let message = format!("{doing}: helm did not print manifests");
            CommandError::failed(CommandCode::AddonProgramFailed, message).because(error)
        })
    }

    /// Bytes of a chart of a repository or registry: from the cache if its digest is recorded, else from the network.
    fn download(&self, helm: &Helm, lock: &mut LockFile) -> Result<Vec<u8>, CommandError> {
        let identity = self.identity();
        let recorded = lock.entry(self.name, &identity).and_then(|entry| entry.sha256.clone());
        if let Some(bytes) = recorded.as_deref().and_then(chart_file::cached) {
            return Ok(bytes);
        }
        let bytes = helm.pull(&self.origin, &self.doing())?;
        let sha256 = sha256_hex(&bytes);
        if let Some(recorded) = recorded.filter(|recorded| *recorded != sha256) {
            let message = format!(
                "{}: the SHA-256 of the chart is {sha256}, and addons.lock.yaml has {recorded}",
                self.doing()
            );
            let hint = format!(
                "check why the publisher replaced the version; `talmox addons update {}` accepts it",
                self.name
            );
            return Err(CommandError::failed(CommandCode::AddonChanged, message).hint(hint));
        }
        chart_file::store(&sha256, &bytes);
        lock.record(self.name, &identity, Some(sha256));
        Ok(bytes)
    }

    /// Downloads the chart and records its digest, whatever the lock file has. Returns the digest. None for a chart in the
    /// inventory.
    pub(crate) fn update(&self, lock: &mut LockFile) -> Result<Option<String>, CommandError> {
        if matches!(self.origin, ChartOrigin::Path(_)) {
            return Ok(None);
        }
        let doing = self.doing();
        let bytes = Helm::find(&doing)?.pull(&self.origin, &doing)?;
        let sha256 = sha256_hex(&bytes);
        chart_file::store(&sha256, &bytes);
        lock.record(self.name, &self.identity(), Some(sha256.clone()));
        Ok(Some(sha256))
    }

    /// Renders the chart, records the digests of the chart and of the objects, and returns the objects as text.
    pub(super) fn stored(
        &self,
        chosen: &Chosen,
        lock: &mut LockFile,
        api_versions: &[String],
    ) -> Result<String, CommandError> {
        if let Some(secret) = self.secrets().first() {
            let message = format!(
                "{}: its values refer to a secret ({}), which would be stored in clear text",
                self.doing(),
                crate::reference::describe(&secret.value)
            );
            let hint = "remove the reference from `values:`, or do not store this add-on";
            return Err(CommandError::failed(CommandCode::AddonSecret, message).hint(hint));
        }
        let rendered = self.render(chosen, lock, &|_| None, api_versions)?;
        let text = objects::as_yaml(&rendered);
        let vendored =
            Vendored { inputs: self.inputs(chosen)?, objects: sha256_hex(text.as_bytes()) };
        let identity = self.identity();
        let sha256 = lock.entry(self.name, &identity).and_then(|entry| entry.sha256.clone());
        let entry = LockEntry { chart: identity, sha256, vendored: Some(vendored) };
        lock.entries.insert(self.name.to_owned(), entry);
        Ok(text)
    }

    /// Texts of the values, the weakest first: the built-in values, the files, the inline values.
    fn values(
        &self,
        chosen: &Chosen,
        secret_at: SecretAt<'_>,
    ) -> Result<Vec<String>, CommandError> {
        let mut all: Vec<String> =
            self.addon.builtin_addon().map(|known| known.values.to_owned()).into_iter().collect();
        for file in self.addon.values_files.iter() {
            let path = chosen.path_at(file.span, &file.value.0);
            all.push(chosen.boundary().read_text(&path)?);
        }
        if let Some(values) = self.addon.values.get() {
            let mut missing = None;
            let tree = values.with_secrets(|reference| {
                let text = secret_at(reference);
                if text.is_none() {
                    missing.get_or_insert_with(|| crate::reference::describe(&reference.value));
                }
                text.map(|text| text.expose().to_owned()).unwrap_or_default()
            });
            if let Some(missing) = missing {
                let message = format!("{}: its values need the {missing}", self.doing());
                return Err(CommandError::failed(CommandCode::SecretUnset, message));
            }
            all.push(talmox_yaml::emit(&tree, 2));
        }
        Ok(all)
    }

    /// SHA-256 of the settings that the objects of a chart without secrets depend on. The version of Kubernetes is not part of
    /// it: an upgrade of Kubernetes does not require Helm.
    fn inputs(&self, chosen: &Chosen) -> Result<String, CommandError> {
        let mut lines = vec![self.identity()];
        if let ChartOrigin::Path(path) = &self.origin {
            let path = chosen.path_at(self.span, path);
            lines.push(chart_file::digest(&path, chosen.boundary())?);
        }
        lines.push(self.addon.target_namespace().unwrap_or(DEFAULT_NAMESPACE).to_owned());
        // A reference to a secret is part of the inputs as a placeholder, so that a new reference is noticed.
        let placeholder = |_: &Spanned<SecretRef>| Some(SecretText::new("(secret)"));
        lines.extend(self.values(chosen, &placeholder)?);
        Ok(sha256_hex(lines.join("\n---\n").as_bytes()))
    }
}
