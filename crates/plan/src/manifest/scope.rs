//! Namespaces of the objects of an add-on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::read::{ALWAYS_THERE, Manifest};

/// Place of a namespace that talmox creates because `namespace:` of an add-on names it.
const CREATED: &str = "`namespace:` of the add-on";

/// Kinds of Kubernetes itself whose objects have no namespace, with their API groups.
const CLUSTER_KINDS: [(&str, &[&str]); 12] = [
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
];

/// Sets the namespace of every object that names none, unless its kind has no namespaces. A kind that neither Kubernetes nor
/// a CustomResourceDefinition among `manifests` defines counts as namespaced.
#[must_use]
pub fn in_namespace(manifests: Vec<Manifest>, namespace: &str) -> Vec<Manifest> {
    let cluster_wide: BTreeSet<(String, String)> =
        manifests.iter().filter_map(Manifest::cluster_kind).collect();
    let place = |manifest: Manifest| {
        let kind = (manifest.group().to_owned(), manifest.kind.clone());
        if manifest.namespace.is_some()
            || is_cluster_kind(&manifest)
            || cluster_wide.contains(&kind)
        {
            return manifest;
        }
        manifest.placed_in(namespace)
    };
    manifests.into_iter().map(place).collect()
}

/// The namespace itself, as an object to apply. None if a manifest contains it, or if every cluster has it. The object has no
/// label of the add-on, because several add-ons can share a namespace, and because it remains when an add-on is removed.
pub fn missing_namespace(manifests: &[Manifest], namespace: &str) -> Option<Manifest> {
    let has_it = |one: &Manifest| one.is_namespace() && one.name == namespace;
    if ALWAYS_THERE.contains(&namespace) || manifests.iter().any(has_it) {
        return None;
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let named = Manifest::named("v1", "Namespace", None, namespace);
    Some(Manifest { place: CREATED.to_owned(), object, ..named })
}

fn is_cluster_kind(manifest: &Manifest) -> bool {
    let mut groups = CLUSTER_KINDS.iter();
    groups
        .any(|(group, kinds)| *group == manifest.group() && kinds.contains(&manifest.kind.as_str()))
}

impl Manifest {
    /// Whether talmox adds this namespace for `namespace:` of an add-on.
    pub fn is_created_namespace(&self) -> bool {
        self.is_namespace() && self.place == CREATED
    }

    /// The API group and the kind that this CustomResourceDefinition defines. None for other objects.
    pub fn defined_kind(&self) -> Option<(String, String)> {
        let is_definition = (self.group(), self.kind.as_str())
            == ("apiextensions.k8s.io", "CustomResourceDefinition");
        let text = |path: &str| self.object.pointer(path).and_then(Value::as_str);
        let found = Some((text("/spec/group")?.to_owned(), text("/spec/names/kind")?.to_owned()));
        found.filter(|_| is_definition)
    }

    /// The versions of the kind that this CustomResourceDefinition defines, such as `cilium.io/v2`. Empty for other objects.
    pub fn defined_versions(&self) -> Vec<String> {
        let Some((group, _)) = self.defined_kind() else { return vec![] };
        let versions = self.object.pointer("/spec/versions").and_then(Value::as_array);
        let names = versions.into_iter().flatten().filter_map(|version| version["name"].as_str());
        names.map(|name| format!("{group}/{name}")).collect()
    }

    /// The kind that this CustomResourceDefinition defines, if its objects have no namespace.
    fn cluster_kind(&self) -> Option<(String, String)> {
        self.defined_kind().filter(|_| self.object["spec"]["scope"] == "Cluster")
    }

    fn placed_in(mut self, namespace: &str) -> Self {
        self.object["metadata"]["namespace"] = namespace.into();
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The object without its namespace, for a kind that turns out to have no namespaces.
    #[must_use]
    pub fn object_without_namespace(&self) -> Value {
        let mut object = self.object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read_manifests;
    use super::*;

    fn object(api_version: &str, kind: &str, metadata: &str) -> String {
        format!("---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{{metadata}}}\n")
    }

    fn placed(text: &str) -> Vec<String> {
        let manifests = read_manifests("x.yaml", text).unwrap();
        let placed = in_namespace(manifests, "shop");
        for one in &placed {
            let written = one.object.pointer("/metadata/namespace").and_then(Value::as_str);
            assert_eq!(written, one.namespace.as_deref(), "{one}");
        }
        placed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn objects_without_a_namespace_get_that_of_the_add_on() {
        let text = [
            object("v1", "ConfigMap", "name: a"),
            object("v1", "ConfigMap", "name: b, namespace: kube-system"),
            object("v1", "Namespace", "name: c"),
            object("rbac.authorization.k8s.io/v1", "ClusterRole", "name: d"),
            object("storage.k8s.io/v1", "StorageClass", "name: e"),
            object("shop.example/v1", "Till", "name: f"),
        ];
        assert_eq!(
            placed(&text.concat()),
            [
                "ConfigMap shop/a",
                "ConfigMap kube-system/b",
                "Namespace c",
                "ClusterRole d",
                "StorageClass e",
                "Till shop/f",
            ]
        );
    }

    #[test]
    fn a_definition_in_the_same_add_on_decides() {
        let definition = |scope: &str| {
            format!(
                "{}spec: {{group: shop.example, scope: {scope}, names: {{kind: Till}}, \
                 versions: [{{name: v1}}, {{name: v2}}]}}\n",
                object(
                    "apiextensions.k8s.io/v1",
                    "CustomResourceDefinition",
                    "name: tills.shop.example"
                )
            )
        };
        let till = object("shop.example/v1", "Till", "name: f");
        assert_eq!(placed(&format!("{}{till}", definition("Cluster")))[1], "Till f");
        assert_eq!(placed(&format!("{}{till}", definition("Namespaced")))[1], "Till shop/f");
        let found = read_manifests("x.yaml", &definition("Cluster")).unwrap();
        assert_eq!(found[0].defined_versions(), ["shop.example/v1", "shop.example/v2"]);
    }

    #[test]
    fn a_namespace_is_added_once() {
        let map = read_manifests("x.yaml", &object("v1", "ConfigMap", "name: a")).unwrap();
        let added = missing_namespace(&map, "shop").unwrap();
        assert!(added.is_created_namespace() && added.name == "shop");
        assert_eq!(missing_namespace(&map, "kube-system"), None);
        let own = read_manifests("x.yaml", &object("v1", "Namespace", "name: shop")).unwrap();
        assert_eq!(missing_namespace(&own, "shop"), None);
        assert!(!own[0].is_created_namespace());
    }
}
