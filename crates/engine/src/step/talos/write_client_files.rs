//! Creates kubeconfig and talosconfig from the secrets bundle, and passes them to the function that writes files.

use std::time::Duration;

use talmox_clock::WaitError;
use talmox_plan::plan::{Meanwhile, StepId, TalosNode, WriteClientFiles};
use talmox_talos_api::address::PORT;
use talmox_talos_api::{Address, Reach, node_address};
use talmox_talos_config::client::{ClientRole, kubeconfig, talosconfig};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::time::UnixTime;

use super::{Awaited, ExplainedWait, locate, or_wait};
use crate::access::{ClientFiles, PROVISIONAL, kubernetes_server};
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};

/// Validity of the certificates, the same as in talosctl.
const TTL: Duration = Duration::from_hours(365 * 24);

impl RunStep for WriteClientFiles {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        write_client_files(self, context).await
    }
}

async fn write_client_files(
    step: &WriteClientFiles,
    context: &StepContext,
) -> Result<Done, StepError> {
    let access = context.cluster()?;
    let reach = &access.settings.reach;
    let Some(way) = server(step, context).await? else { return Ok(Done::Already) };
    let around = match way {
        KubeconfigServer::Shared => None,
        KubeconfigServer::ControlPlane(server) => Some(server),
    };
    let seconds = i64::try_from(context.run.clock.unix()).unwrap_or(i64::MAX);
    let now = UnixTime::from_seconds(seconds);
    let randomness = &mut SystemRandomness::new();
    let (server, tls_server_name) =
        kubernetes_server(around.as_ref().unwrap_or(&step.server), reach);
    let request = kubeconfig::KubeconfigRequest {
        cluster: &step.cluster,
        server: &server,
        tls_server_name: tls_server_name.as_deref(),
        groups: &["system:masters".to_owned()],
        ttl: TTL,
    };
    let kubeconfig =
        kubeconfig::generate(&access.bundle, &request, now, randomness).map_err(|error| {
            StepError::failed(StepCode::ClientFilesFailed, "create a kubeconfig").caused_by(error)
        })?;
    let kubeconfig = match around {
        Some(_) => SecretText::new(format!("{PROVISIONAL}{}", kubeconfig.expose())),
        None => kubeconfig,
    };
    let endpoints = addresses(&step.endpoints, context).await?;
    let endpoints: Vec<String> = endpoints.iter().map(|host| endpoint(host, reach)).collect();
    let nodes = addresses(&step.nodes, context).await?;
    let request = talosconfig::TalosconfigRequest {
        context: &step.cluster,
        endpoints: &endpoints,
        nodes: &nodes,
        roles: &[ClientRole::Admin],
        ttl: TTL,
    };
    let talosconfig =
        talosconfig::generate(&access.bundle, &request, now, randomness).map_err(|error| {
            StepError::failed(StepCode::ClientFilesFailed, "create a talosconfig").caused_by(error)
        })?;
    let files = ClientFiles { cluster: step.cluster.clone(), kubeconfig, talosconfig };
    let write = async {
        (access.write_files)(files).map_err(|why| {
            StepError::failed(
                StepCode::ClientFilesFailed,
                format!("write kubeconfig and talosconfig: {why}"),
            )
        })
    };
    context.act(write).await?;
    Ok(Done::Acted)
}

/// Server in a kubeconfig.
enum KubeconfigServer {
    /// The shared address, or the endpoint of the inventory.
    Shared,
    /// The first control plane, because the shared address does not answer.
    ControlPlane(String),
}

/// The server to write into kubeconfig. None if the file must not be changed. If another step waits for the shared address,
/// this step waits for it too.
async fn server(
    step: &WriteClientFiles,
    context: &StepContext,
) -> Result<Option<KubeconfigServer>, StepError> {
    let (Some(shared), Some(first)) = (&step.shared, step.endpoints.first()) else {
        return Ok(Some(KubeconfigServer::Shared));
    };
    let address = Address { host: shared.address.to_string(), port: shared.port };
    let awaited_by = match &shared.meanwhile {
        Meanwhile::Await(step) => step.as_slice(),
        Meanwhile::Around | Meanwhile::Leave => &[],
    };
    if answers(&address, awaited_by, context).await? {
        return Ok(Some(KubeconfigServer::Shared));
    }
    if shared.meanwhile == Meanwhile::Leave {
        return Ok(None);
    }
    let found = addresses(std::slice::from_ref(first), context).await?;
    let way = found.first().map(|host| Address { host: host.clone(), port: shared.port });
    let until = match shared.meanwhile {
        Meanwhile::Around => "until it does",
        Meanwhile::Await(_) | Meanwhile::Leave => "until the same command is run again",
    };
    context.note(format!(
        "{address} does not answer: kubeconfig leads to {} alone, {until}",
        first.name
    ));
    Ok(Some(way.map_or(KubeconfigServer::Shared, |way| {
        KubeconfigServer::ControlPlane(format!("https://{way}"))
    })))
}

/// Whether the Kubernetes API of this cluster answers at an address. Waits while another step of the plan makes the
/// address available.
async fn answers(
    address: &Address,
    awaited_by: &[StepId],
    context: &StepContext,
) -> Result<bool, StepError> {
    let kube = context.cluster()?.kube_at(std::slice::from_ref(address))?;
    let what = format!("{address} to answer");
    let mut wait = context.cancellable_wait(context.deadline.clone(), what);
    loop {
        let reason = match context.wait(kube.version()).await? {
            Ok(_) => return Ok(true),
            Err(error) => error.reason(),
        };
        if awaited_by.is_empty() || context.still_needs(awaited_by).is_err() {
            return Ok(false);
        }
        match wait.not_yet(reason).await {
            Ok(()) => {}
            Err(WaitError::Cancelled) => return Err(StepError::cancelled()),
            Err(WaitError::TimedOut { .. }) => return Ok(false),
        }
    }
}

async fn addresses(nodes: &[TalosNode], context: &StepContext) -> Result<Vec<String>, StepError> {
    let mut found = vec![];
    for node in nodes {
        let name = &node.name;
        let awaited = Awaited {
            failure: format!("the address of {name} is not known"),
            what: format!("the address of {name}"),
        };
        let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
        let address = loop {
            break or_wait!(wait, locate(node, context).await);
        };
        found.push(address.to_string());
    }
    Ok(found)
}

/// The address at which clients on this machine reach a node.
fn endpoint(host: &str, reach: &Reach) -> String {
    let target = reach.target(&node_address(host));
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
