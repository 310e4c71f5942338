//! Whether a node has become what its config says: its name, and the addresses of its network cards.
//!
//! While a node boots, what its first-boot drive says is up first. Addresses of drive and config
//! that differ add up, and the node then keeps using the wrong one: this is looked for.

mod found;
mod judge;
mod verdict;

use talmox_plan::desired::ExpectedNetwork;
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::{Client, Code, TalosError};

use found::{NodeLink, links, node_ips};
use judge::{judge, judge_node_ips};
use verdict::not_yet;

pub(crate) use verdict::{Reason, Settled};

/// One look at a configured node.
pub(crate) async fn look(shape: &ExpectedNetwork, client: &Client) -> Result<Settled, TalosError> {
    if let Some(wanted) = &shape.hostname {
        let found = client.hostname().await?;
        if short(&found) != short(wanted) {
            return Ok(not_yet(format!("it calls itself {found}, not {wanted}")));
        }
    }
    let seen = client.list(ResourceKind::LINK_STATUS).await?;
    let addresses = client.list(ResourceKind::ADDRESS_STATUS).await?;
    let links = links(&seen, &addresses);
    let judged = judge(shape, &links);
    if let Settled::NotYet(_) = judged {
        return Ok(judged);
    }
    Ok(match bad_node_ip(shape, &links, client).await? {
        Some(reason) => Settled::NotYet(reason),
        None => judged,
    })
}

/// What is wrong with the addresses that Kubernetes will know the node by.
async fn bad_node_ip(
    shape: &ExpectedNetwork,
    links: &[NodeLink],
    client: &Client,
) -> Result<Option<Reason>, TalosError> {
    match client.get(ResourceKind::NODE_IP, "kubelet").await {
        Ok(found) => Ok(judge_node_ips(shape, links, &node_ips(found.as_ref()))),
        // Nobody may ask for it here.
        Err(TalosError::No { code: Code::PermissionDenied, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Without its domain.
fn short(hostname: &str) -> &str {
    hostname.split('.').next().unwrap_or_default()
}
