//! Whether a node has the hostname and the network addresses of its config.
//!
//! While a node boots, the addresses of its first-boot drive are configured first. If the drive and the config have different
//! addresses, the node has both and keeps using the wrong one. This module detects that.

mod compare;
mod link;
mod verdict;

use talmox_plan::desired::ExpectedNetwork;
use talmox_talos_api::client::ResourceKind;
use talmox_talos_api::{Client, Code, TalosError};

use compare::{compare, compare_node_ips};
use link::{NodeLink, links, node_ips};
use verdict::not_yet;

pub(crate) use verdict::{NodeNetwork, WaitReason};

/// Reads the network of a configured node once, and compares it with the expected network.
pub(crate) async fn look(
    shape: &ExpectedNetwork,
    client: &Client,
) -> Result<NodeNetwork, TalosError> {
    if let Some(desired) = &shape.hostname {
        let found = client.hostname().await?;
        if short(&found) != short(desired) {
            return Ok(not_yet(format!("its hostname is {found}, not {desired}")));
        }
    }
    let seen = client.list(ResourceKind::LINK_STATUS).await?;
    let addresses = client.list(ResourceKind::ADDRESS_STATUS).await?;
    let links = links(&seen, &addresses);
    let compared = compare(shape, &links);
    if let NodeNetwork::NotYet(_) = compared {
        return Ok(compared);
    }
    Ok(match bad_node_ip(shape, &links, client).await? {
        Some(reason) => NodeNetwork::NotYet(reason),
        None => compared,
    })
}

/// Problem of the addresses that the kubelet registers. None if they are right, or if Talos does not allow reading
/// them.
async fn bad_node_ip(
    shape: &ExpectedNetwork,
    links: &[NodeLink],
    client: &Client,
) -> Result<Option<WaitReason>, TalosError> {
    match client.get(ResourceKind::NODE_IP, "kubelet").await {
        Ok(found) => Ok(compare_node_ips(shape, links, &node_ips(found.as_ref()))),
        // Some versions of Talos do not allow clients to read this resource.
        Err(TalosError::No { code: Code::PermissionDenied, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The hostname without its domain.
fn short(hostname: &str) -> &str {
    hostname.split('.').next().unwrap_or_default()
}
