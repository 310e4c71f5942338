//! Observed state of add-ons: their manifests, and how the cluster differs from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::manifest::Manifest;

/// Observed state of all add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addons {
    /// The add-ons that could be compared with the cluster.
    pub known: BTreeMap<String, AddonSeen>,
    /// Objects that were applied for an add-on, and that its manifests no longer contain.
    pub left: BTreeMap<String, Vec<String>>,
    /// The manifests of each add-on.
    pub read: BTreeMap<String, AddonRead>,
    /// The existing namespaces among those that add-ons need. None if Kubernetes does not answer.
    pub namespaces: Option<BTreeSet<String>>,
}

/// The manifests of an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonRead {
    Objects(Vec<Manifest>),
    /// The manifests could not be fetched, for this reason.
    Unreachable(String),
    /// The manifests are not usable, for this reason.
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

/// An object that differs from its manifest. The text contains the names of changed fields, and their values only if
/// they cannot be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectChange {
    /// `Deployment shop/till`.
    pub object: String,
    /// Description of the change, such as `changes spec.replicas 1 → 2`.
    pub what: String,
}

/// An object that the API rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedObject {
    /// `Deployment shop/till`.
    pub object: String,
    /// Source of its manifest: the file or URL, and the number of the document in it.
    pub place: String,
    /// Reason of the rejection, as the API reports it.
    pub why: String,
    /// Whether the API will always reject the object: neither a retry nor the creation of other objects changes the
    /// result.
    pub is_final: bool,
}
