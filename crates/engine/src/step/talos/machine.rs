//! Identity of the machine that answers.

use std::net::IpAddr;

use talmox_plan::plan::TalosNode;
use talmox_pve::PveError;
use talmox_pve::api::qemu;
use talmox_talos_api::{Client, Expected, Look, Machine};

use crate::locate::missing_identity;
use crate::step::{StepCode, StepContext, StepError};

/// Whether a machine in maintenance mode is the VM of the node. `NotYet` while the machine has not reported its complete
/// identity. An error if it is another machine.
pub(super) fn known(
    machine: &Machine,
    node: &TalosNode,
    address: IpAddr,
) -> Result<Look<()>, StepError> {
    compare(machine, &node.expected).judge(node, address)
}

/// Like [`known`], for a configured node. Reads the identity through `client`.
pub(super) async fn known_member(
    client: &Client,
    node: &TalosNode,
    address: IpAddr,
) -> Result<Look<()>, StepError> {
    ask(client, node).await.judge(node, address)
}

/// Result of comparing the identity of a machine with the expected one.
#[derive(Debug)]
pub(super) enum IdentityMatch {
    Same,
    NotYet(String),
    Other(String),
}

impl IdentityMatch {
    fn judge(self, node: &TalosNode, address: IpAddr) -> Result<Look<()>, StepError> {
        match self {
            Self::Same => Ok(Look::Done(())),
            Self::NotYet(reason) => Ok(Look::NotYet(reason)),
            Self::Other(why) => Err(other_machine(node, address, &why)),
        }
    }
}

/// Reads the identity of a configured node. The certificate of the node proves that it belongs to the cluster, and its
/// hardware shows which node it is. The instance id is not compared, because the drive or volume of the first boot may have
/// been removed.
pub(super) async fn ask(client: &Client, node: &TalosNode) -> IdentityMatch {
    let expected = Expected { instance_id: None, ..node.expected.clone() };
    match Machine::read(client).await {
        Ok(machine) => compare(&machine, &expected),
        Err(error) => IdentityMatch::NotYet(error.reason()),
    }
}

pub(super) fn compare(machine: &Machine, expected: &Expected) -> IdentityMatch {
    if let Some(missing) = missing_identity(machine, expected) {
        return IdentityMatch::NotYet(format!("it has not reported its {missing} yet"));
    }
    machine.mismatch(expected).map_or(IdentityMatch::Same, IdentityMatch::Other)
}

pub(super) fn other_machine(node: &TalosNode, address: IpAddr, why: &str) -> StepError {
    let vmid = node.own.vm.vmid;
    StepError::failed(
        StepCode::WrongMachine,
        format!("the machine at {address} is not the VM {vmid} of {}: {why}", node.name),
    )
    .hint(
        "nothing was sent to it; check which machine has the address, or give the node another one",
    )
}

/// Checks whether a machine was booted with the drive that Proxmox wrote for the VM. If so, returns the complete identity of
/// the machine.
///
/// The drive was written when the VM was started, and Proxmox reports the id of the drive that it would write now. That id
/// does not cover custom files on the drive (`cicustom`). So a VM with such files is identified by its UUID and MAC
/// addresses.
pub(super) async fn by_drive(
    machine: &Machine,
    node: &TalosNode,
    address: IpAddr,
    context: &StepContext,
) -> Result<Look<Expected>, StepError> {
    if machine.instance_id.is_none() {
        return Ok(Look::NotYet("it has not reported its instance id yet".to_owned()));
    }
    let vm = &node.own.vm;
    let unknown = |error: PveError| {
        Ok(Look::NotYet(format!("Proxmox does not report which drive it has: {error}")))
    };
    let id = match context.send(&qemu::instance_id(vm)).await {
        Ok(qemu::InstanceId(id)) => id,
        Err(error) => return unknown(error),
    };
    let expected = Expected { instance_id: Some(id), ..node.expected.clone() };
    let Some(why) = machine.mismatch(&expected) else { return Ok(Look::Done(expected)) };
    match context.send(&qemu::config(vm)).await {
        Ok(config) if config.get("cicustom").is_some() => {
            Ok(Look::Done(node.expected.clone()))
        }
        Ok(_) => Err(other_machine(node, address, &why).hint(format!(
            "nothing was sent to it; if it is the VM, its cloud-init settings were changed since it was started: on \
             {}, qm stop {vmid} && qm start {vmid}. If not, check which machine has the address",
            vm.node,
            vmid = vm.vmid,
        ))),
        Err(error) => unknown(error),
    }
}
