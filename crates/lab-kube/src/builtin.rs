//! Table of the built-in kinds, one line each.

use std::collections::BTreeMap;

use super::kind::{Kind, ScalePaths};

use Scope::{Cluster, Namespaced};

#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Cluster,
    Namespaced,
}

/// API group, version, kind, plural, short names, scope and subresources of a built-in kind.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    Scope,
    &'static [&'static str],
);

const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["status", "scale"];
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("", "v1", "ConfigMap", "configmaps", &["cm"], Namespaced, &[]),
    ("", "v1", "Endpoints", "endpoints", &["ep"], Namespaced, &[]),
    ("", "v1", "Event", "events", &["ev"], Namespaced, &[]),
    ("", "v1", "LimitRange", "limitranges", &["limits"], Namespaced, &[]),
    ("", "v1", "Namespace", "namespaces", &["ns"], Cluster, STATUS),
    ("", "v1", "Node", "nodes", &["no"], Cluster, STATUS),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], Namespaced, STATUS),
    ("", "v1", "PersistentVolume", "persistentvolumes", &["pv"], Cluster, STATUS),
    ("", "v1", "Pod", "pods", &["po"], Namespaced, STATUS),
    ("", "v1", "ReplicationController", "replicationcontrollers", &["rc"], Namespaced, SCALED),
    ("", "v1", "ResourceQuota", "resourcequotas", &["quota"], Namespaced, STATUS),
    ("", "v1", "Secret", "secrets", &[], Namespaced, &[]),
    ("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], Namespaced, &[]),
    ("", "v1", "Service", "services", &["svc"], Namespaced, STATUS),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", &[], Namespaced, &[]),
    ("apps", "v1", "DaemonSet", "daemonsets", &["ds"], Namespaced, STATUS),
    ("apps", "v1", "Deployment", "deployments", &["deploy"], Namespaced, SCALED),
    ("apps", "v1", "ReplicaSet", "replicasets", &["rs"], Namespaced, SCALED),
    ("apps", "v1", "StatefulSet", "statefulsets", &["sts"], Namespaced, SCALED),
    ("batch", "v1", "CronJob", "cronjobs", &["cj"], Namespaced, STATUS),
    ("batch", "v1", "Job", "jobs", &[], Namespaced, STATUS),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"], Namespaced, STATUS),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], Namespaced, STATUS),
    ("coordination.k8s.io", "v1", "Lease", "leases", &[], Namespaced, &[]),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", &[], Namespaced, &[]),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", &["ing"], Namespaced, STATUS),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", &[], Cluster, &[]),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", &["netpol"], Namespaced, &[]),
    (RBAC, "v1", "ClusterRole", "clusterroles", &[], Cluster, &[]),
    (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", &[], Cluster, &[]),
    (RBAC, "v1", "Role", "roles", &[], Namespaced, &[]),
    (RBAC, "v1", "RoleBinding", "rolebindings", &[], Namespaced, &[]),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", &[], Cluster, &[]),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", &[], Cluster, &[]),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", &["sc"], Cluster, &[]),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", &[], Cluster, STATUS),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", &["pc"], Cluster, &[]),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", &[], Cluster, &[]),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", &["csr"], Cluster, &["status", "approval"]),
    (ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[], Cluster, &[]),
    (ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[], Cluster, &[]),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", &[], Cluster, STATUS),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"], Cluster, STATUS),
];

/// Resources in the category `all`, which `kubectl get all` shows.
const ALL: [&str; 9] = [
    "pods",
    "replicationcontrollers",
    "services",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "cronjobs",
    "jobs",
];

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(|(group, version, kind, plural, short, scope, subresources)| Kind {
        id: Kind::id(group, plural),
        group: (*group).to_owned(),
        versions: vec![(*version).to_owned()],
        name: (*kind).to_owned(),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        short: short.iter().map(|name| (*name).to_owned()).collect(),
        categories: ALL.iter().filter(|name| *name == plural).map(|_| "all".to_owned()).collect(),
        namespaced: *scope == Namespaced,
        status: subresources.contains(&"status"),
        scale: subresources.contains(&"scale").then(ScalePaths::built_in),
        custom: None,
        schemas: BTreeMap::new(),
    })
}
