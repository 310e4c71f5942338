//! Version of Kubernetes in the config of a running node.
//!
//! An upgrade of Kubernetes changes the images of its components in a certain order, because a kubelet must not be newer than
//! the API server. So a changed config is sent with the images that the node uses already.

use std::collections::BTreeMap;

use talmox_talos_config::leaf::leaves;
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Release};

/// Sections of a machine config with an image of Kubernetes, as a section and a component.
const COMPONENTS: [(&str, &str); 5] = [
    ("cluster", "apiServer"),
    ("cluster", "controllerManager"),
    ("cluster", "proxy"),
    ("cluster", "scheduler"),
    ("machine", "kubelet"),
];

/// Whether the value at this path of a config is an image of Kubernetes.
pub(super) fn is_image(path: &str) -> bool {
    COMPONENTS.iter().any(|component| path_of(*component) == path)
}

/// The config `new` with the images of the config `old`. None if one of them cannot be parsed, or if only one of them has a
/// certain image.
pub(super) fn keep(new: &SecretText, old: &SecretText, release: Release) -> Option<SecretText> {
    let read = |text: &SecretText| Config::parse(text.expose(), release).ok();
    let (new, old) = (read(new)?, read(old)?);
    let (new_images, old_images) = (images(&new), images(&old));
    if new_images.len() != old_images.len() {
        return None;
    }
    let mut patches = vec![];
    for ((section, component), image) in &new_images {
        let kept = old_images.get(&(*section, *component))?;
        if kept != image {
            let text = format!("{section}: {{{component}: {{image: {kept:?}}}}}\n");
            patches.push(Patch::parse(&text, release).ok()?);
        }
    }
    let config = patch::apply_to(&new, &patches).ok()?;
    Some(SecretText::new(config.encode()))
}

/// The images of a config, by their components.
fn images(config: &Config) -> BTreeMap<(&'static str, &'static str), String> {
    let mut found = BTreeMap::new();
    for leaf in leaves(config) {
        let component = COMPONENTS.into_iter().find(|one| path_of(*one) == leaf.path);
        found.extend(component.map(|component| (component, leaf.text.to_owned())));
    }
    found
}

fn path_of((section, component): (&str, &str)) -> String {
    format!("{section}.{component}.image")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(version: &str, label: &str) -> SecretText {
        SecretText::new(format!(
            "version: v1alpha1\nmachine:\n  type: worker\n  kubelet: {{image: 'ghcr.io/siderolabs/kubelet:{version}'}}\n  \
             nodeLabels: {{rack: {label}}}\ncluster:\n  proxy: {{image: 'registry.k8s.io/kube-proxy:{version}'}}\n"
        ))
    }

    #[test]
    fn a_config_keeps_the_images_of_the_node_and_takes_over_the_rest() {
        let release = Release::of("v1.11.2").unwrap();
        let kept = keep(&config("v1.34.2", "new"), &config("v1.34.1", "old"), release).unwrap();
        let text = kept.expose();
        assert!(text.contains("rack: new") && !text.contains("v1.34.2"), "{text}");
        assert!(text.contains("kubelet:v1.34.1") && text.contains("kube-proxy:v1.34.1"), "{text}");
        let bare = SecretText::new("version: v1alpha1\nmachine: {type: worker}\n");
        assert_eq!(keep(&config("v1.34.2", "new"), &bare, release), None);
    }

    #[test]
    fn only_images_of_kubernetes_are_images() {
        assert!(is_image("cluster.apiServer.image") && is_image("machine.kubelet.image"));
        assert!(!is_image("cluster.etcd.image") && !is_image("machine.install.image"));
    }
}
