//! Observed state of add-ons: their manifests, and how the cluster differs from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::manifest::Manifest;

/// Observed state of all add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addons {
    /// The add-ons that could be compared with the cluster.
    pub known: BTreeMap<String, AddonSeen>,
    /// Objects that talmox applied for an add-on, and that the manifests of the add-on no longer contain. The keys are names
    /// of add-ons.
    pub left: BTreeMap<String, Vec<String>>,
    /// The manifests of each add-on.
    pub read: BTreeMap<String, AddonRead>,
    /// The existing namespaces among those that the add-ons need. None if Kubernetes does not answer.
    pub namespaces: Option<BTreeSet<String>>,
}

/// The manifests of an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonRead {
    Objects(Vec<Manifest>),
    /// The manifests could not be fetched. The text is the reason.
    Unreachable(String),
    /// The manifests are not usable. The text is the reason.
    Wrong(String),
}

impl AddonRead {
    /// Whether the manifests install a pod network. False if they could not be read.
    pub fn brings_network(&self) -> bool {
        match self {
            Self::Objects(manifests) => manifests.iter().any(Manifest::brings_network),
            Self::Unreachable(_) | Self::Wrong(_) => false,
        }
    }
}

/// Differences between an add-on and its objects in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddonSeen {
    /// Whether the record in the cluster shows that the add-on was applied before.
    pub is_noted: bool,
    /// The changes that applying the add-on would make.
    pub changes: Vec<ObjectChange>,
    /// The objects that Kubernetes would reject.
    pub refusals: Vec<RejectedObject>,
}

/// An object that differs from its manifest. The text names the changed fields. It contains their values only if the values
/// cannot be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectChange {
    /// Kind, namespace and name of the object, such as `Deployment shop/till`.
    pub object: String,
    /// Description of the change, such as `changes spec.replicas 1 → 2`.
    pub what: String,
}

/// An object that the API rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedObject {
    /// Kind, namespace and name of the object, such as `Deployment shop/till`.
    pub object: String,
    /// Source of the manifest of the object: the file or URL, and the number of the document in it.
    pub place: String,
    /// Reason of the rejection, as the API reports it.
    pub why: String,
    /// Whether the API will always reject the object. If so, neither a retry nor the creation of other objects helps.
    pub is_final: bool,
}
