//! Tests of routing.

use std::collections::BTreeSet;

use super::super::endpoint::placeholders;
use super::super::{Method, Permission, endpoints, find};
use crate::Release::{self, V8, V9};

fn found(release: Release, method: Method, path: &str) -> Option<(&'static str, Vec<String>)> {
    let (endpoint, parameters) = find(release, method, path)?;
    assert_eq!(endpoint.id(), (method, endpoint.path));
    let values = parameters.into_iter().map(|(name, value)| format!("{name}={value}"));
    Some((endpoint.path, values.collect()))
}

#[test]
fn every_endpoint_is_found_by_its_path() {
    for release in [V8, V9] {
        let mut seen = BTreeSet::new();
        for endpoint in endpoints(release) {
            assert!(seen.insert(endpoint.id()), "{:?} is defined twice", endpoint.id());
            let (path, _) = found(release, endpoint.method, endpoint.path).unwrap();
            assert_eq!(path, endpoint.path);
            for name in placeholders(endpoint.path) {
                assert!(endpoint.parameters.plain.contains_key(name), "{path} {name}");
            }
        }
    }
}

#[test]
fn path_parameters_are_extracted() {
    assert_eq!(
        found(V9, Method::Get, "/nodes/pve1/qemu/100/config"),
        Some(("/nodes/{node}/qemu/{vmid}/config", vec!["node=pve1".into(), "vmid=100".into()]))
    );
    assert_eq!(found(V9, Method::Get, "//version/").unwrap().0, "/version");
    // Slashes after the storage belong to the name of the volume.
    let content = "/nodes/pve1/storage/local/content";
    let (path, parameters) =
        found(V9, Method::Delete, &format!("{content}/local:iso/x.iso")).unwrap();
    assert_eq!(path, "/nodes/{node}/storage/{storage}/content/{volume}");
    assert_eq!(parameters[2], "volume=local:iso/x.iso");
    assert_eq!(
        found(V9, Method::Get, content).unwrap().0,
        "/nodes/{node}/storage/{storage}/content"
    );
}

#[test]
fn unknown_paths_are_not_found() {
    for (method, path) in [
        (Method::Get, "/"),
        (Method::Get, "/nodes/pve1/qemu/100/bogus"),
        (Method::Get, "/nodes/pve1/qemu/100/status/start"),
        (Method::Post, "/version"),
        (Method::Get, "/version/x"),
        (Method::Get, "/pools/a/b"),
        (Method::Get, "/nodes/a b/qemu"),
    ] {
        assert_eq!(found(V9, method, path), None, "{path}");
    }
    assert!(found(V9, Method::Get, "/cluster/ha/rules").is_some());
    assert!(found(V8, Method::Get, "/cluster/ha/rules").is_none());
    assert!(found(V8, Method::Get, "/cluster/ha/groups").is_some());
    assert_eq!(Method::parse("PATCH"), None);
}

#[test]
fn ticket_and_upload_have_special_rules() {
    let (ticket, _) = find(V9, Method::Post, "/access/ticket").unwrap();
    assert!(!ticket.allow_token && !ticket.proxied && ticket.permission == Permission::World);
    let (upload, _) = find(V9, Method::Post, "/nodes/a/storage/local/upload").unwrap();
    assert!(!upload.proxied, "the host that receives an upload handles it");
}
