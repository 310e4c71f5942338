//! Table columns of the built-in kinds.

use serde_json::{Value, json};

use super::less_common;

/// Column definitions of a kind.
pub(super) fn definitions(id: &str) -> Vec<Value> {
    of(id).split('|').map(definition).collect()
}

fn definition(column: &str) -> Value {
    let wide = column.strip_prefix('+');
    let number = column.strip_prefix('#');
    let name = wide.or(number).unwrap_or(column);
    json!({
        "name": name,
        "type": if number.is_some() { "integer" } else { "string" },
        "format": if column == "Name" { "name" } else { "" },
        "description": "",
        "priority": u8::from(wide.is_some()),
    })
}

/// Names of the columns, separated by `|`. A column with the prefix `+` is shown only by `-o wide`; the prefix `#` marks a
/// number.
fn of(id: &str) -> &'static str {
    match id {
        "pods" => "Name|Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates",
        "nodes" => {
            "Name|Status|Roles|Age|Version|+Internal-IP|+External-IP|+OS-Image|+Kernel-Version|+Container-Runtime"
        }
        "namespaces" => "Name|Status|Age",
        "configmaps" => "Name|#Data|Age",
        "secrets" => "Name|Type|#Data|Age",
        "serviceaccounts" => "Name|#Secrets|Age",
        "services" => "Name|Type|Cluster-IP|External-IP|Port(s)|Age|+Selector",
        "events" => {
            "Last Seen|Type|Reason|Object|+Subobject|+Source|Message|+First Seen|+Count|+Name"
        }
        "deployments.apps" => "Name|Ready|#Up-to-date|#Available|Age|+Containers|+Images|+Selector",
        "replicasets.apps" => "Name|#Desired|#Current|#Ready|Age|+Containers|+Images|+Selector",
        "daemonsets.apps" => {
            "Name|#Desired|#Current|#Ready|#Up-to-date|#Available|Node Selector|Age|+Containers|+Images|+Selector"
        }
        "statefulsets.apps" => "Name|Ready|Age|+Containers|+Images",
        "jobs.batch" => "Name|Status|Completions|Duration|Age|+Containers|+Images|+Selector",
        "leases.coordination.k8s.io" => "Name|Holder|Age",
        "poddisruptionbudgets.policy" => {
            "Name|Min Available|Max Unavailable|#Allowed Disruptions|Age"
        }
        "customresourcedefinitions.apiextensions.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "roles.rbac.authorization.k8s.io" => "Name|Created At",
        "clusterrolebindings.rbac.authorization.k8s.io"
        | "rolebindings.rbac.authorization.k8s.io" => {
            "Name|Role|Age|+Users|+Groups|+ServiceAccounts"
        }
        "storageclasses.storage.k8s.io" => {
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"
        }
        _ => less_common::columns(id).unwrap_or("Name|Age"),
    }
}
