//! Bootstrap manifests: the manifests of Talos, and those of the config.

mod addon;
mod rbac;

pub(crate) use addon::{core_dns_image, flannel_image, proxy_args};

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use talmox_lab_environment::fetch::FetchMethod;
use talmox_lab_kube::object::{name, text};
use talmox_lab_kube::{KubeStore, read_yaml};

use crate::config::{AppliedConfig, Facts};
use crate::simulation::Simulation;
use crate::version::Version;

/// Time between two attempts to create objects, if the creation failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
const ATTEMPTS: usize = 30;
/// Maximum size of a downloaded manifest.
const MAX_SIZE: u64 = 8 << 20;

/// Manifests of Talos and inline manifests of the config, sorted by name.
pub(crate) fn of_config(facts: &Facts, version: &Version) -> Vec<(String, Vec<Value>)> {
    let mut all = rbac::manifests(facts, version);
    if facts.cni == "flannel" {
        all.push(("05-flannel".to_owned(), addon::flannel(facts, version)));
    }
    if facts.has_proxy {
        all.push(("10-kube-proxy".to_owned(), addon::kube_proxy(facts)));
    }
    if facts.has_core_dns {
        all.push(("11-core-dns".to_owned(), addon::core_dns(facts, version)));
        all.push(("11-core-dns-svc".to_owned(), vec![addon::core_dns_service(facts)]));
    }
    for (name, contents) in &facts.inline_manifests {
        // The YAML is valid here, because invalid YAML is rejected when the config is applied.
        all.push((format!("99-{name}"), read_yaml(contents).unwrap_or_default()));
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

/// Creates the objects that are missing. Existing objects stay unchanged.
pub(super) async fn apply(
    simulation: &Arc<Simulation>,
    vmid: u32,
    boot: u64,
    config: &AppliedConfig,
    store: &KubeStore,
) {
    let version = simulation.look(|talos| talos.nodes.get(&vmid).map(|node| node.version.clone()));
    let Some(version) = version else { return };
    let own = of_config(&config.facts, &version).into_iter().flat_map(|(_, objects)| objects);
    let mut waiting: Vec<Value> = own.collect();
    let log = |line: String| {
        let now = simulation.now();
        simulation.change_node(vmid, boot, |node| node.dmesg(now, &line));
    };
    for url in &config.facts.extra_manifests {
        match fetch(simulation, url).await {
            Ok(objects) => waiting.extend(objects),
            Err(problem) => log(format!("error downloading manifest {url}: {problem}")),
        }
    }
    for attempt in 0..ATTEMPTS {
        waiting.retain(|object| match store.create_any(object.clone()) {
            Ok(true) => {
                log(format!("created {}/{}", text(object, "/kind"), name(object)));
                false
            }
            Ok(false) => false,
            // The creation is retried, because another manifest may create the kind or the namespace of the object.
            Err(failure) => {
                if attempt == 0 {
                    log(format!("error applying {}: {}", name(object), failure.message));
                }
                true
            }
        });
        if waiting.is_empty() {
            return;
        }
        simulation.clock().sleep(RETRY_INTERVAL).await;
    }
}

/// Downloads a manifest from a loopback address, or from a server in the reach map of the lab.
async fn fetch(simulation: &Arc<Simulation>, url: &str) -> Result<Vec<Value>, String> {
    let outside = simulation.environment.outside.clone();
    let url = url.to_owned();
    let work = move || {
        let mut answer =
            outside.fetch(FetchMethod::Get, &url, true).map_err(|error| error.as_status_line())?;
        if answer.status != 200 {
            return Err(format!("{} {}", answer.status, answer.reason));
        }
        let mut contents = String::new();
        let mut body = (&mut answer.body).take(MAX_SIZE);
        body.read_to_string(&mut contents).map_err(|error| error.to_string())?;
        read_yaml(&contents)
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}
