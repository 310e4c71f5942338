//! Which add-ons are in the cluster as they should be, and what is left of others.

use std::collections::BTreeMap;

use super::world::{AddonSeen, Addons};
use crate::addon::manifests;
use crate::desired::Desired;
use crate::kube::{KubeClient, KubeError, Manifest};
use crate::web::Web;

/// Looks for all add-ons whose manifests are at hand. What is not in the answer is not known; the
/// plan then makes sure.
pub(super) async fn addons(
    desired: &Desired,
    kube: &KubeClient,
    web: &Web,
) -> Result<Addons, KubeError> {
    let noted = kube.noted().await?;
    let mut wanted: BTreeMap<&str, Vec<Manifest>> = BTreeMap::new();
    for addon in &desired.addons {
        if let Ok(manifests) = manifests(&addon.name, &addon.source, web).await {
            wanted.insert(&addon.name, manifests);
        }
    }
    let mut addons = Addons::default();
    for (name, manifests) in &wanted {
        if let Ok(changes) = kube.changes(manifests).await {
            let is_noted = noted.contains_key(*name);
            addons.known.insert((*name).to_owned(), AddonSeen { is_noted, changes });
        }
    }
    // What goes from one add-on to another is not left over, also where nobody knows what the other
    // one consists of now.
    let is_wanted = |name: &str| desired.addons.iter().any(|addon| addon.name == name);
    let is_unknown = |name: &str| is_wanted(name) && !wanted.contains_key(name);
    let mut kept: Vec<Manifest> = wanted.values().flatten().cloned().collect();
    kept.extend(noted.iter().filter(|(name, _)| is_unknown(name)).flat_map(|(_, it)| it).cloned());
    for (name, objects) in noted.iter().filter(|(name, _)| !is_unknown(name)) {
        let left = kube.left_over(name, objects, &kept).await?;
        if !left.is_empty() {
            addons.left.insert(name.clone(), left.iter().map(ToString::to_string).collect());
        }
    }
    Ok(addons)
}
