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
    /// The namespaces that add-ons need and the cluster has; none if Kubernetes does not answer.
    pub namespaces: Option<BTreeSet<String>>,
}

/// The manifests of an add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonRead {
    Objects(Vec<Manifest>),
    /// The manifests could not be fetched, and why.
    Unreachable(String),
    /// The manifests are not usable, and why.
    Wrong(String),
}

impl AddonRead {
    /// Whether it is known to bring a pod network.
    pub fn brings_network(&self) -> bool {
        match self {
            Self::Objects(manifests) => manifests.iter().any(Manifest::brings_network),
            Self::Unreachable(_) | Self::Wrong(_) => false,
        }
    }
}

/// How the cluster differs from an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AddonSeen {
    /// Whether a note in the cluster says that it was applied before.
    pub is_noted: bool,
    /// What applying it would change.
    pub changes: Vec<ObjectChange>,
    /// The objects that Kubernetes would reject.
    pub refusals: Vec<RejectedObject>,
}

/// An object that differs from its manifest. Fields are named; values are shown only if they cannot be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectChange {
    /// `Deployment shop/till`.
    pub object: String,
    /// Such as `changes spec.replicas 1 → 2`.
    pub what: String,
}

/// An object that the API rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedObject {
    /// `Deployment shop/till`.
    pub object: String,
    /// Where its manifest was read.
    pub place: String,
    /// The text of the API.
    pub why: String,
    /// Whether neither a retry nor other objects can change that.
    pub is_final: bool,
}
