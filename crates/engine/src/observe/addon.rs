//! Which add-ons are in the cluster as they should be.

use super::Addons;
use crate::desired::Desired;
use crate::kube::{KubeClient, read_manifests};
use crate::plan::AddonSource;

/// Looks for all add-ons whose manifests are at hand. What is not in the answer is not known; the
/// plan then makes sure.
pub async fn addons(desired: &Desired, kube: &KubeClient) -> Addons {
    let mut known = Addons::new();
    for addon in &desired.addons {
        let AddonSource::Texts(texts) = &addon.source else { continue };
        let read = texts.iter().map(|one| read_manifests(&one.origin, &one.text));
        let Ok(manifests) = read.collect::<Result<Vec<_>, _>>() else { continue };
        let manifests: Vec<_> = manifests.into_iter().flatten().collect();
        if let Ok(is_there) = kube.has(&manifests).await {
            known.insert(addon.name.clone(), is_there);
        }
    }
    known
}
