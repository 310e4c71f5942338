//! Add-ons of a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_model::Span;
use talmox_model::inventory::{Addon as AddonSettings, ManifestSource};
use talmox_model::value::{AddonWait, Checksum, Handover};

use crate::plan::PlannedSecret;

/// A file of Kubernetes manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path or URL of the file, for messages.
    pub origin: String,
    /// Content of the file. It is a secret, because the manifests may contain a `Secret` object.
    pub text: PlannedSecret,
}

/// Source of the manifests of an add-on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddonSource {
    Texts(Vec<ManifestFile>),
    Url {
        url: String,
        /// SHA-256 in hexadecimal digits.
        checksum: Option<String>,
    },
    /// Several sources, in the order of the inventory.
    Several(Vec<Self>),
    /// The command does not apply add-ons, and did not render the chart or kustomize folder. The add-on counts as desired.
    Skipped,
    /// The manifests could not be made, for example because Helm is not installed.
    Failed {
        reason: String,
    },
}

/// Manifests that a path, a kustomize folder or a chart of the inventory gives, or the reason why there are none.
pub type SourceTexts = Result<Vec<ManifestFile>, String>;

/// Namespace of the objects of an add-on that name none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddonNamespace {
    pub name: String,
    /// Whether talmox creates the namespace if it does not exist.
    pub is_created: bool,
}

/// An add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addon {
    pub name: String,
    pub source: AddonSource,
    pub namespace: Option<AddonNamespace>,
    /// Names of the add-ons that are applied before this one.
    pub needs: Vec<String>,
    /// Whether a run waits until the workloads of the add-on run.
    pub waits: bool,
    /// Timeout of this add-on. None for the timeout of the cluster.
    pub timeout: Option<Duration>,
    /// Whether talmox stops managing the add-on once a GitOps tool manages one of its objects.
    pub is_handed_over: bool,
}

impl Addon {
    /// An add-on with default settings.
    pub fn new(name: impl Into<String>, source: AddonSource) -> Self {
        Self {
            name: name.into(),
            source,
            namespace: None,
            needs: vec![],
            waits: true,
            timeout: None,
            is_handed_over: false,
        }
    }

    /// Derives an add-on. The key of `texts` is the position of the path or of the chart in the inventory.
    pub(super) fn of(addon: &AddonSettings, texts: &BTreeMap<Span, SourceTexts>) -> Self {
        let name = addon.name.get().cloned().unwrap_or_else(|| "unnamed".to_owned());
        let namespace = addon.target_namespace().map(|namespace| AddonNamespace {
            name: namespace.to_owned(),
            is_created: addon.create_namespace.get().copied().unwrap_or(true),
        });
        let wait = addon.wait.get().copied().unwrap_or(AddonWait::Yes);
        Self {
            namespace,
            needs: addon.needs.values().cloned().collect(),
            is_handed_over: addon.handover.get() == Some(&Handover::Gitops),
            waits: wait != AddonWait::No,
            timeout: match wait {
                AddonWait::UpTo(limit) => Some(limit.get()),
                AddonWait::Yes | AddonWait::No => None,
            },
            ..Self::new(name, source(addon, texts))
        }
    }
}

fn source(addon: &AddonSettings, texts: &BTreeMap<Span, SourceTexts>) -> AddonSource {
    if let Some(url) = addon.url.get() {
        return by_url(url.to_string(), addon.checksum.get());
    }
    if let Some((span, _)) = addon.chart_origin() {
        return rendered(texts, span);
    }
    let mut sources: Vec<AddonSource> = addon
        .manifests
        .iter()
        .filter_map(|item| match &item.value {
            ManifestSource::Path(_) => {
                Some(by_texts(texts, item.span).unwrap_or(AddonSource::Texts(vec![])))
            }
            ManifestSource::Entry(entry) => match (entry.url.get(), entry.kustomize.spanned()) {
                (Some(url), _) => Some(by_url(url.to_string(), entry.checksum.get())),
                (None, Some(folder)) => Some(rendered(texts, folder.span)),
                (None, None) => None,
            },
        })
        .collect();
    let is_text = |source: &AddonSource| matches!(source, AddonSource::Texts(_));
    if sources.iter().all(is_text) {
        let files = sources.into_iter().flat_map(|source| match source {
            AddonSource::Texts(files) => files,
            _ => vec![],
        });
        return AddonSource::Texts(files.collect());
    }
    if sources.contains(&AddonSource::Skipped) {
        return AddonSource::Skipped;
    }
    if sources.len() == 1 {
        return sources.remove(0);
    }
    AddonSource::Several(sources)
}

fn by_url(url: String, checksum: Option<&Checksum>) -> AddonSource {
    AddonSource::Url { url, checksum: checksum.map(Checksum::hex) }
}

/// The texts of a chart or kustomize folder.
fn rendered(texts: &BTreeMap<Span, SourceTexts>, span: Span) -> AddonSource {
    by_texts(texts, span).unwrap_or(AddonSource::Skipped)
}

/// The texts at a position of the inventory.
fn by_texts(texts: &BTreeMap<Span, SourceTexts>, span: Span) -> Option<AddonSource> {
    Some(match texts.get(&span)? {
        Ok(files) => AddonSource::Texts(files.clone()),
        Err(reason) => AddonSource::Failed { reason: reason.clone() },
    })
}
