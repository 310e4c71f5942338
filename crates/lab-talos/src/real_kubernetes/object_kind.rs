//! Kinds of objects that both the store of the lab and a real API server have.

use serde_json::Value;
use talmox_lab_kube::object::{name, namespace};

/// Kind of object, with its names in the store and on the API server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectKind {
    /// Id of the kind in the store of the lab.
    pub(super) id: &'static str,
    base: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

const fn namespaced(id: &'static str, base: &'static str, plural: &'static str) -> ObjectKind {
    ObjectKind { id, base, plural, is_namespaced: true }
}

const fn global(id: &'static str, base: &'static str, plural: &'static str) -> ObjectKind {
    ObjectKind { id, base, plural, is_namespaced: false }
}

const CORE: &str = "/api/v1";
const APPS: &str = "/apis/apps/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(super) const NAMESPACES: ObjectKind = global("namespaces", CORE, "namespaces");
pub(super) const NODES: ObjectKind = global("nodes", CORE, "nodes");
pub(super) const PODS: ObjectKind = namespaced("pods", CORE, "pods");
pub(super) const LEASES: ObjectKind =
    namespaced("leases.coordination.k8s.io", "/apis/coordination.k8s.io/v1", "leases");

/// Kinds whose objects the lab creates once, and does not change afterwards.
pub(super) const CREATED_ONCE: [ObjectKind; 6] = [
    global("clusterroles.rbac.authorization.k8s.io", RBAC, "clusterroles"),
    global("clusterrolebindings.rbac.authorization.k8s.io", RBAC, "clusterrolebindings"),
    namespaced("serviceaccounts", CORE, "serviceaccounts"),
    namespaced("configmaps", CORE, "configmaps"),
    namespaced("secrets", CORE, "secrets"),
    namespaced("services", CORE, "services"),
];

/// Kinds that the simulated controllers and kubelets process, owners first. The store and the API server have the same objects
/// of these kinds.
pub(super) const SYNCED: [ObjectKind; 8] = [
    NODES,
    namespaced("poddisruptionbudgets.policy", "/apis/policy/v1", "poddisruptionbudgets"),
    namespaced("deployments.apps", APPS, "deployments"),
    namespaced("daemonsets.apps", APPS, "daemonsets"),
    namespaced("statefulsets.apps", APPS, "statefulsets"),
    namespaced("jobs.batch", "/apis/batch/v1", "jobs"),
    namespaced("replicasets.apps", APPS, "replicasets"),
    PODS,
];

impl ObjectKind {
    /// API path of the list of all objects.
    pub(super) fn all(&self) -> String {
        format!("{}/{}", self.base, self.plural)
    }

    /// API path for the creation of an object.
    pub(super) fn place(&self, object: &Value) -> String {
        if self.is_namespaced {
            format!("{}/namespaces/{}/{}", self.base, namespace(object), self.plural)
        } else {
            self.all()
        }
    }

    /// API path of an object.
    pub(super) fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.place(object), name(object))
    }
}
