//! Fingerprint of the observed state that a plan was made for.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use talmox_pve_types::id::VmId;

use crate::observed::{AddonRead, Addons, Observed, Pve, TalosSeen, VmSeen};
use crate::sha256::sha256_hex;

/// The SHA-256 of all parts of the observed state that plans depend on, without the load and uptime of hosts.
pub(super) fn observed_fingerprint(observed: &Observed) -> String {
    let pve = &observed.pve;
    let nodes: BTreeMap<&str, Value> =
        observed.nodes.iter().map(|(name, seen)| (name.as_str(), node(seen))).collect();
    let form = json!({
        "vms": pve.vms.iter().map(|(vmid, seen)| vm(*vmid, seen)).collect::<Vec<_>>(),
        "ids": pve.ids,
        "contents": contents(pve),
        "permissions": pve.permissions,
        "mappings": pve.mappings,
        "nodes": nodes,
        "addons": addons(&observed.addons),
    });
    sha256_hex(form.to_string().as_bytes())
}

fn vm(vmid: VmId, seen: &VmSeen) -> Value {
    let config = match &seen.config {
        Ok(config) => json!(config.iter().collect::<BTreeMap<_, _>>()),
        Err(reason) => json!(reason),
    };
    json!({
        "vmid": vmid,
        "host": seen.host,
        "is_running": seen.is_running,
        "config": config,
    })
}

/// The files of each storage, sorted by name, because the order in the answer of the API may vary.
fn contents(pve: &Pve) -> Vec<Value> {
    let files = pve.contents.iter().map(|((host, storage), answer)| {
        let volumes = answer.iter().flatten().map(|volume| (volume.volid.to_string(), volume.size));
        let volumes: BTreeMap<String, Option<u64>> = volumes.collect();
        json!({"host": host, "storage": storage, "volumes": volumes})
    });
    files.collect()
}

fn node(seen: &TalosSeen) -> Value {
    match seen {
        TalosSeen::NotAsked => json!("not-asked"),
        // The text of a connection error may differ at each attempt.
        TalosSeen::Nothing(_) => json!("nothing"),
        TalosSeen::Mute(text) => json!({"mute": text}),
        TalosSeen::NotTalos(text) => json!({"not-talos": text}),
        TalosSeen::Maintenance { mismatch } => json!({"maintenance": {"mismatch": mismatch}}),
        TalosSeen::OwnNode(found) => {
            let config = found.config.as_ref();
            json!({
                "version": found.version,
                "schematic": found.schematic,
                "config_sha256": config.map(|config| sha256_hex(config.expose().as_bytes())),
                "etcd": found.etcd,
            })
        }
        TalosSeen::OtherMachine(text) => json!({"other-machine": text}),
        TalosSeen::NoAccess(text) => json!({"no-access": text}),
    }
}

fn addons(addons: &Addons) -> Value {
    let read = |read: &AddonRead| match read {
        AddonRead::Objects(manifests) => {
            let names = manifests.iter().map(|object| format!("{} {object}", object.api_version));
            json!({"objects": names.collect::<Vec<_>>()})
        }
        AddonRead::Unreachable(reason) => json!({"unreachable": reason}),
        AddonRead::Wrong(reason) => json!({"wrong": reason}),
    };
    let manifests: BTreeMap<&str, Value> =
        addons.read.iter().map(|(name, one)| (name.as_str(), read(one))).collect();
    json!({
        "known": addons.known,
        "left": addons.left,
        "manifests": manifests,
        "namespaces": addons.namespaces,
    })
}

#[cfg(test)]
mod tests {
    use talmox_talos_config::secret::SecretText;

    use super::*;
    use crate::observed::Configured;

    fn with_node(seen: TalosSeen) -> String {
        let mut observed = Observed::default();
        observed.nodes.insert("cp-1".to_owned(), seen);
        observed_fingerprint(&observed)
    }

    #[test]
    fn a_silent_node_is_the_same_whatever_the_error_is() {
        let silent = |error: &str| with_node(TalosSeen::Nothing(error.to_owned()));
        assert_eq!(silent("connection refused"), silent("no route to host"));
        assert_ne!(silent("connection refused"), with_node(TalosSeen::NotAsked));
    }

    #[test]
    fn another_machine_config_is_another_state() {
        let with_config = |config: &str| {
            let config = Some(SecretText::new(config));
            with_node(TalosSeen::OwnNode(Box::new(Configured { config, ..Configured::default() })))
        };
        assert_eq!(with_config("one"), with_config("one"));
        assert_ne!(with_config("one"), with_config("two"));
    }
}
