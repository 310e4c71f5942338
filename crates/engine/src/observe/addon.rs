//! Observing add-ons: their manifests, their differences from the cluster, and objects of removed add-ons.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use talmox_plan::desired::{Addon, AddonSource, Desired};
use talmox_plan::manifest::Manifest;
use talmox_plan::observed::{AddonRead, AddonSeen, Addons};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::addon::{AddonError, manifests};
use crate::kube::{Comparison, KubeClient, KubeError};
use crate::web::Web;

/// Timeout of manifests from the web, in real time, also in a lab.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the manifests of all add-ons, at the same time.
pub(super) async fn read(
    desired: &Desired,
    web: &Web,
    limit: Duration,
) -> BTreeMap<String, AddonRead> {
    let mut reading = JoinSet::new();
    let addons = desired.addons.iter().filter(|addon| addon.source != AddonSource::Skipped);
    for addon in addons.cloned() {
        let web = web.clone();
        reading.spawn(async move {
            let read = read_one(&addon, &web, limit.min(FETCH_TIMEOUT)).await;
            (addon.name, read)
        });
    }
    reading.join_all().await.into_iter().collect()
}

async fn read_one(addon: &Addon, web: &Web, limit: Duration) -> AddonRead {
    let read = manifests(&addon.name, &addon.source, addon.namespace.as_ref(), web);
    match timeout(limit, read).await {
        Ok(Ok(manifests)) => AddonRead::Objects(manifests),
        Ok(Err(error @ AddonError::Fetch { .. })) => AddonRead::Unreachable(error.chain()),
        Ok(Err(error)) => AddonRead::Wrong(error.chain()),
        Err(_) => AddonRead::Unreachable("no answer came in time".to_owned()),
    }
}

/// Whether one of the add-ons installs a pod network.
pub(super) fn bring_network(read: &BTreeMap<String, AddonRead>) -> bool {
    read.values().any(AddonRead::brings_network)
}

/// Compares the manifests of all add-ons that could be read with the cluster. If the result lacks an add-on, its state is not
/// known, and the plan applies it. If this version of Kubernetes does not have the kind of a manifest, the add-on is in the
/// result as [`AddonRead::Wrong`].
pub(super) async fn addons(
    desired: &Desired,
    read: &BTreeMap<String, AddonRead>,
    kube: &KubeClient,
) -> Result<Addons, KubeError> {
    let noted = kube.noted().await?;
    let mut expected: BTreeMap<&str, &[Manifest]> = BTreeMap::new();
    for (name, read) in read {
        if let AddonRead::Objects(manifests) = read {
            expected.insert(name, manifests);
        }
    }
    let mut addons = Addons::default();
    let needed = expected.values().copied().flatten().filter_map(|one| one.namespace.clone());
    let needed: BTreeSet<String> = needed.collect();
    // An add-on that a GitOps tool manages counts as desired, whatever its objects are.
    for addon in desired.addons.iter().filter(|addon| addon.is_handed_over) {
        let Some(manifests) = expected.get(addon.name.as_str()) else { continue };
        if let Some(tool) = kube.gitops_tool(manifests).await? {
            let subject = addon.name.as_str();
            tracing::info!(target: "talmox::plan", subject, "skipped: {tool} manages the add-on");
            let seen = AddonSeen { is_noted: true, ..AddonSeen::default() };
            addons.known.insert(addon.name.clone(), seen);
            expected.remove(addon.name.as_str());
        }
    }
    for (name, manifests) in &expected {
        match kube.compare(manifests).await {
            Ok(Comparison { changes, refusals }) => {
                let is_noted = noted.contains_key(*name);
                let seen = AddonSeen { is_noted, changes, refusals };
                addons.known.insert((*name).to_owned(), seen);
            }
            Err(error @ KubeError::NoSuchKind { .. }) => {
                addons.read.insert((*name).to_owned(), AddonRead::Wrong(error.to_string()));
            }
            // Kubernetes does not answer, or cannot compare the add-on now.
            Err(_) => {}
        }
    }
    let all = || expected.values().copied().flatten();
    addons.namespaces = Some(kube.existing_namespaces(needed).await?);
    // An object that moved from one add-on to another is not left over, even if the manifests of the other add-on could not
    // be read.
    let is_expected = |name: &str| desired.addons.iter().any(|addon| addon.name == name);
    let is_unknown = |name: &str| is_expected(name) && !expected.contains_key(name);
    let mut kept: Vec<Manifest> = all().cloned().collect();
    kept.extend(noted.iter().filter(|(name, _)| is_unknown(name)).flat_map(|(_, it)| it).cloned());
    for (name, objects) in noted.iter().filter(|(name, _)| !is_unknown(name)) {
        let left = kube.left_over(name, objects, &kept).await?;
        if !left.is_empty() {
            addons.left.insert(name.clone(), left.iter().map(ToString::to_string).collect());
        }
    }
    Ok(addons)
}
