//! kubeconfig and talosconfig, made from the bundle and handed to whoever writes files.

use std::time::Duration;

use talmox_talos_api::address::PORT;
use talmox_talos_api::{Address, Reach};
use talmox_talos_config::client::{Role, kubeconfig, talosconfig};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::time::UnixTime;

use super::{StepWait, locate, or_wait};
use crate::access::{ClientFiles, PROVISIONAL, kubernetes_server};
use crate::patience::LOOK;
use crate::plan::{TalosNode, WriteClientFiles};
use crate::step::{Done, StepContext, StepError};

/// As long as talosctl makes them.
const TTL: Duration = Duration::from_hours(365 * 24);

pub(in crate::step) async fn write_client_files(
    step: &WriteClientFiles,
    context: &StepContext,
) -> Result<Done, StepError> {
    let access = context.cluster()?;
    let reach = &access.settings.reach;
    let around = around_shared_address(step, context).await?;
    let seconds = i64::try_from(context.run.clock.unix()).unwrap_or(i64::MAX);
    let now = UnixTime::from_seconds(seconds);
    let randomness = &mut SystemRandomness::new();
    let (server, tls_server_name) =
        kubernetes_server(around.as_ref().unwrap_or(&step.server), reach);
    let request = kubeconfig::Request {
        cluster: &step.cluster,
        server: &server,
        tls_server_name: tls_server_name.as_deref(),
        groups: &["system:masters".to_owned()],
        ttl: TTL,
    };
    let kubeconfig = kubeconfig::generate(&access.bundle, &request, now, randomness)
        .map_err(|error| StepError::failed("make a kubeconfig").caused_by(error))?;
    let kubeconfig = match around {
        Some(_) => SecretText::new(format!("{PROVISIONAL}{}", kubeconfig.expose())),
        None => kubeconfig,
    };
    let endpoints = addresses(&step.endpoints, context).await?;
    let endpoints: Vec<String> = endpoints.iter().map(|host| endpoint(host, reach)).collect();
    let nodes = addresses(&step.nodes, context).await?;
    let request = talosconfig::Request {
        context: &step.cluster,
        endpoints: &endpoints,
        nodes: &nodes,
        roles: &[Role::Admin],
        ttl: TTL,
    };
    let talosconfig = talosconfig::generate(&access.bundle, &request, now, randomness)
        .map_err(|error| StepError::failed("make a talosconfig").caused_by(error))?;
    let files = ClientFiles { cluster: step.cluster.clone(), kubeconfig, talosconfig };
    let write = async {
        (access.write_files)(files)
            .map_err(|why| StepError::failed(format!("write kubeconfig and talosconfig: {why}")))
    };
    context.act(write).await?;
    Ok(Done::Acted)
}

/// The way to the first control plane, if the shared address does not answer. While another step waits
/// for that, so does this one.
async fn around_shared_address(
    step: &WriteClientFiles,
    context: &StepContext,
) -> Result<Option<String>, StepError> {
    let (Some(shared), Some(first)) = (&step.shared, step.endpoints.first()) else {
        return Ok(None);
    };
    let address = Address { host: shared.address.to_string(), port: shared.port };
    let kube = context.cluster()?.kube_at(std::slice::from_ref(&address))?;
    let mut told = String::new();
    loop {
        let reason = match context.wait(kube.version()).await? {
            Ok(_) => return Ok(None),
            Err(error) => error.reason(),
        };
        let is_awaited = shared.awaited_by.as_slice();
        if is_awaited.is_empty()
            || context.still_needs(is_awaited).is_err()
            || context.deadline.has_passed()
        {
            break;
        }
        if told != reason {
            context.waits(format!("{address} does not answer yet: {reason}"));
            told = reason;
        }
        context.pause(LOOK).await?;
    }
    let found = addresses(std::slice::from_ref(first), context).await?;
    let way = found.first().map(|host| Address { host: host.clone(), port: shared.port });
    context.note(format!(
        "{address} does not answer: kubeconfig leads to {} alone, until the same command is run again",
        first.name
    ));
    Ok(way.map(|way| format!("https://{way}")))
}

async fn addresses(nodes: &[TalosNode], context: &StepContext) -> Result<Vec<String>, StepError> {
    let mut found = vec![];
    for node in nodes {
        let what = format!("the address of {} is not known", node.name);
        let mut wait = StepWait::new(context, what).about([&node.own]);
        let address = loop {
            break or_wait!(wait, locate(node, context).await);
        };
        found.push(address.to_string());
    }
    Ok(found)
}

/// Where Talos's clients find a node from here.
fn endpoint(host: &str, reach: &Reach) -> String {
    let target = reach.target(&Address::new(host));
    if target.port == PORT { target.host } else { target.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_they_are_found_from_here() {
        let reach = Reach::new([
            ("10.0.0.20:6443", "127.9.0.1:41000"),
            ("10.0.0.11", "127.9.0.11"),
            ("10.0.0.12:50000", "127.9.0.1:42000"),
        ]);
        let found = |url: &str| kubernetes_server(url, &reach);
        let there = ("https://127.9.0.1:41000".to_owned(), Some("10.0.0.20".to_owned()));
        assert_eq!(found("https://10.0.0.20:6443"), there);
        assert_eq!(found("https://10.0.0.21:6443"), ("https://10.0.0.21:6443".to_owned(), None));
        assert_eq!(found("https://[fd00::1]:6443"), ("https://[fd00::1]:6443".to_owned(), None));
        assert_eq!(endpoint("10.0.0.11", &reach), "127.9.0.11");
        assert_eq!(endpoint("10.0.0.12", &reach), "127.9.0.1:42000");
        assert_eq!(endpoint("10.0.0.13", &reach), "10.0.0.13");
    }
}
