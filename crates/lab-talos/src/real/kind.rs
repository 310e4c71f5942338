//! Where a real API server has objects of the kinds that the lab has too.

use serde_json::Value;
use talmox_lab_kube::object::{name, namespace};

/// A kind, as both sides call it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// In the lab's store.
    pub(super) id: &'static str,
    base: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

const fn namespaced(id: &'static str, base: &'static str, plural: &'static str) -> Kind {
    Kind { id, base, plural, is_namespaced: true }
}

const fn global(id: &'static str, base: &'static str, plural: &'static str) -> Kind {
    Kind { id, base, plural, is_namespaced: false }
}

const CORE: &str = "/api/v1";
const APPS: &str = "/apis/apps/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(super) const NAMESPACES: Kind = global("namespaces", CORE, "namespaces");
pub(super) const NODES: Kind = global("nodes", CORE, "nodes");
pub(super) const PODS: Kind = namespaced("pods", CORE, "pods");
pub(super) const LEASES: Kind =
    namespaced("leases.coordination.k8s.io", "/apis/coordination.k8s.io/v1", "leases");

/// What the lab makes once, and then is whoever's it is.
pub(super) const MADE: [Kind; 6] = [
    global("clusterroles.rbac.authorization.k8s.io", RBAC, "clusterroles"),
    global("clusterrolebindings.rbac.authorization.k8s.io", RBAC, "clusterrolebindings"),
    namespaced("serviceaccounts", CORE, "serviceaccounts"),
    namespaced("configmaps", CORE, "configmaps"),
    namespaced("secrets", CORE, "secrets"),
    namespaced("services", CORE, "services"),
];

/// What the lab's controllers and kubelets work on, owners before what they own. Of these both sides
/// have the same.
pub(super) const SHARED: [Kind; 8] = [
    NODES,
    namespaced("poddisruptionbudgets.policy", "/apis/policy/v1", "poddisruptionbudgets"),
    namespaced("deployments.apps", APPS, "deployments"),
    namespaced("daemonsets.apps", APPS, "daemonsets"),
    namespaced("statefulsets.apps", APPS, "statefulsets"),
    namespaced("jobs.batch", "/apis/batch/v1", "jobs"),
    namespaced("replicasets.apps", APPS, "replicasets"),
    PODS,
];

impl Kind {
    /// All of them.
    pub(super) fn all(&self) -> String {
        format!("{}/{}", self.base, self.plural)
    }

    /// Where such an object is made.
    pub(super) fn place(&self, object: &Value) -> String {
        if self.is_namespaced {
            format!("{}/namespaces/{}/{}", self.base, namespace(object), self.plural)
        } else {
            self.all()
        }
    }

    /// The object itself.
    pub(super) fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.place(object), name(object))
    }
}
