//! Label by which talmox recognises the objects of an add-on in a cluster.

use serde_json::json;

use super::read::Manifest;
use crate::sha256::sha256_hex;

/// Label of the objects of add-ons, and of the records that talmox stores about add-ons.
pub const LABEL: &str = "talmox.dev/addon";

/// Maximum length of an add-on name in labels. A longer name is replaced by a hash.
const LONGEST: usize = 40;

impl Manifest {
    /// The manifest with the label of this add-on.
    #[must_use]
    pub fn of_addon(mut self, addon: &str) -> Self {
        let labels = &mut self.object["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[LABEL] = slug(addon).into();
        self
    }
}

/// The name of an add-on for names and labels of Kubernetes. If the name is too long or has characters that Kubernetes does
/// not allow there, a hash of the name.
pub fn slug(addon: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = addon.chars().all(is_plain) && !addon.starts_with('-') && !addon.ends_with('-');
    if is_name && !addon.is_empty() && addon.len() <= LONGEST {
        return addon.to_owned();
    }
    sha256_hex(addon.as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::read::read_manifests;
    use super::*;

    #[test]
    fn objects_of_add_ons_are_labelled() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, labels: {own: x}}\n";
        let found = read_manifests("x.yaml", text).unwrap();
        let labels =
            |at: usize| found[at].clone().of_addon("net").object["metadata"]["labels"].take();
        assert_eq!(labels(0), json!({"talmox.dev/addon": "net"}));
        assert_eq!(labels(1), json!({"own": "x", "talmox.dev/addon": "net"}));
    }

    #[test]
    fn any_name_becomes_one_that_kubernetes_takes() {
        assert_eq!(slug("net"), "net");
        for odd in ["", "My net", "-net", &"long".repeat(20)] {
            assert_eq!(slug(odd).len(), 16, "{odd}");
        }
    }
}
