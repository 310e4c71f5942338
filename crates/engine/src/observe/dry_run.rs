//! Dry runs of changed configs: how Talos would apply the config of the inventory to a running node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{DryRun, TalosSeen};
use talmox_plan::planning::config_for_dry_run;
use talmox_talos_api::client::{Applied, Apply, ApplyMode};
use talmox_talos_api::{Client, Code, TalosError, node_address};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::secret::SecretText;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sources::TalosAccess;

/// First version of Talos that applies every config without a reboot. Changes that need a reboot take effect at the next
/// boot, and a dry run does not report them.
const NEVER_REBOOTS: Contract = Contract::new(1, 14);

/// Requests a dry run from each node whose config differs from the inventory. No request is sent to other nodes. A node that
/// does not answer within `limit` is planned without a dry run.
pub(super) async fn observe(
    desired: &Desired,
    access: &TalosAccess,
    nodes: &mut BTreeMap<String, TalosSeen>,
    limit: Duration,
) {
    let mut asked = JoinSet::new();
    for node in desired.nodes.iter().filter(|node| node.is_talos) {
        let Some(TalosSeen::OwnNode(found)) = nodes.get(&node.name) else { continue };
        let Some(address) = found.address else { continue };
        let Some(config) = config_for_dry_run(desired, node, found) else { continue };
        let name = node.name.clone();
        let (version, access) = (found.version.clone(), access.clone());
        asked.spawn(async move {
            let asking = Box::pin(ask(address, &config, &access));
            let answer = timeout(limit, asking).await.ok().flatten();
            (name, answer.and_then(|answer| dry_run(answer, version.as_deref())))
        });
    }
    for (name, answer) in asked.join_all().await {
        if let Some(TalosSeen::OwnNode(found)) = nodes.get_mut(&name) {
            found.dry_run = answer;
        }
    }
}

async fn ask(
    address: IpAddr,
    config: &SecretText,
    access: &TalosAccess,
) -> Option<Result<Applied, TalosError>> {
    let address = node_address(address.to_string());
    let client = Client::new(address, &access.credentials, &access.settings).ok()?;
    Some(client.apply(&Apply { config, mode: ApplyMode::Auto, dry_run: true }).await)
}

/// The result of a dry run. None if the answer does not show how the config would be applied.
fn dry_run(answer: Result<Applied, TalosError>, version: Option<&str>) -> Option<DryRun> {
    match answer {
        Ok(Applied { mode: Some(ApplyMode::Reboot), .. }) => Some(DryRun::Reboot),
        Ok(Applied { mode: Some(ApplyMode::NoReboot), .. }) => {
            let version = version.and_then(|version| version.parse::<Contract>().ok());
            version.is_some_and(|version| version < NEVER_REBOOTS).then_some(DryRun::Live)
        }
        Err(TalosError::No { code: Code::InvalidArgument, message, .. }) => {
            Some(DryRun::Rejected(message))
        }
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::Call;

    use super::*;

    fn applied(mode: Option<ApplyMode>) -> Result<Applied, TalosError> {
        Ok(Applied { mode, warnings: vec![], details: SecretText::default() })
    }

    fn rejected(code: Code) -> Result<Applied, TalosError> {
        let call = Call { operation: "ApplyConfiguration", node: node_address("10.0.0.11") };
        Err(TalosError::No { call, code, message: "it is wrong".to_owned() })
    }

    #[test]
    fn the_answer_decides_unless_the_version_never_reboots() {
        let live = || applied(Some(ApplyMode::NoReboot));
        let reboot = applied(Some(ApplyMode::Reboot));
        assert_eq!(dry_run(live(), Some("v1.13.6")), Some(DryRun::Live));
        assert_eq!(dry_run(reboot, Some("v1.13.6")), Some(DryRun::Reboot));
        assert_eq!(dry_run(live(), Some("v1.14.0")), None);
        assert_eq!(dry_run(live(), None), None);
        assert_eq!(dry_run(applied(None), Some("v1.13.6")), None);
    }

    #[test]
    fn only_an_invalid_config_is_rejected() {
        let invalid = dry_run(rejected(Code::InvalidArgument), None);
        assert_eq!(invalid, Some(DryRun::Rejected("it is wrong".to_owned())));
        assert_eq!(dry_run(rejected(Code::PermissionDenied), None), None);
    }
}
