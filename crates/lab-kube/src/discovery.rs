//! Discovery documents and OpenAPI documents.

use serde_json::{Value, json};

use super::kind::{Kind, Kinds};

/// Verbs that a kind supports.
fn verbs(kind: &Kind) -> Vec<&'static str> {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    all.into_iter()
        .filter(|verb| *verb != "deletecollection" || kind.supports_delete_collection())
        .collect()
}

/// Subresources of a kind. Each has a name, the group, version and kind of its request body, and its verbs.
fn subresources(kind: &Kind) -> Vec<(&str, &str, &str, &str, &[&str])> {
    let mut all: Vec<(&str, &str, &str, &str, &[&str])> = vec![];
    let own = kind.name.as_str();
    let change: &[&str] = &["get", "patch", "update"];
    match kind.id.as_str() {
        "pods" => {
            all.push(("binding", "", "v1", "Binding", &["create"]));
            all.push(("eviction", "policy", "v1", "Eviction", &["create"]));
            all.push(("log", "", "v1", own, &["get"]));
        }
        "namespaces" => all.push(("finalize", "", "v1", own, &["update"])),
        "certificatesigningrequests.certificates.k8s.io" => {
            all.push(("approval", "", "", own, change));
        }
        _ => {}
    }
    if kind.scale.is_some() {
        all.push(("scale", "autoscaling", "v1", "Scale", change));
    }
    if kind.status {
        all.push(("status", "", "", own, change));
    }
    all
}

pub(super) fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version =
        |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": version(&versions[0]),
    })
}

pub(super) fn groups(kinds: &Kinds) -> Value {
    let groups: Vec<Value> =
        kinds.groups().iter().map(|(name, versions)| group(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(super) fn one_group(kinds: &Kinds, name: &str) -> Option<Value> {
    let mut found = group(name, kinds.groups().get(name)?);
    found["kind"] = "APIGroup".into();
    found["apiVersion"] = "v1".into();
    Some(found)
}

fn of_version<'k>(
    kinds: &'k Kinds,
    group: &'k str,
    version: &'k str,
) -> impl Iterator<Item = &'k Kind> {
    kinds
        .iter()
        .map(AsRef::as_ref)
        .filter(move |kind| kind.group == group && kind.versions.iter().any(|v| v == version))
}

/// Resource list of `/api/v1` or `/apis/GROUP/VERSION`.
pub(super) fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut all = vec![];
    for kind in of_version(kinds, group, version) {
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "verbs": verbs(kind),
        });
        if !kind.short.is_empty() {
            resource["shortNames"] = json!(kind.short);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        all.push(resource);
        for (name, group, version, sent, verbs) in subresources(kind) {
            let mut resource = json!({
                "name": format!("{}/{name}", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": sent,
                "verbs": verbs,
            });
            if !group.is_empty() {
                resource["group"] = group.into();
                resource["version"] = version.into();
            }
            all.push(resource);
        }
    }
    if all.is_empty() {
        return None;
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": all,
    }))
}

/// Aggregated discovery document of `/api` or `/apis`.
pub(super) fn aggregated(kinds: &Kinds, is_core: bool) -> Value {
    let groups = kinds.groups();
    let groups: Vec<(&str, Vec<&str>)> =
        if is_core { vec![("", vec!["v1"])] } else { groups.into_iter().collect() };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        of_version(kinds, group, version).map(aggregated_resource).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let parts: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, group, version, sent, verbs)| {
            let response = json!({"group": group, "version": version, "kind": sent});
            json!({"subresource": name, "responseKind": response, "verbs": verbs})
        })
        .collect();
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.name},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    for (key, names) in [("shortNames", &kind.short), ("categories", &kind.categories)] {
        if !names.is_empty() {
            resource[key] = json!(names);
        }
    }
    if !parts.is_empty() {
        resource["subresources"] = Value::Array(parts);
    }
    resource
}

/// Index of the OpenAPI v3 documents.
pub(super) fn openapi_root(kinds: &Kinds) -> Value {
    let mut paths = serde_json::Map::new();
    let mut add = |path: String| {
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    add("api/v1".to_owned());
    for (group, versions) in kinds.groups() {
        for version in versions {
            add(format!("apis/{group}/{version}"));
        }
    }
    json!({"paths": paths})
}

/// OpenAPI v3 document with only the parts that `kubectl` reads. They show which kinds can be patched, and that the server
/// validates fields.
pub(super) fn openapi(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut paths = serde_json::Map::new();
    let root =
        if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{version}") };
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<Value> =
        ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter).into();
    for kind in of_version(kinds, group, version) {
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let operation = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": {
                "group": group, "version": version, "kind": kind.name,
            },
        });
        paths.insert(
            format!("{root}{scope}/{}/{{name}}", kind.plural),
            json!({"patch": operation, "put": operation}),
        );
        paths.insert(format!("{root}{scope}/{}", kind.plural), json!({"post": operation}));
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": {}},
    }))
}

/// OpenAPI v2 document without kinds, as a protocol buffer. An older client without schemas does not validate objects itself.
pub(super) const OPENAPI_V2: &[u8] = b"\x0a\x032.0";

pub(super) fn openapi_v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {},
        "definitions": {},
    })
}
