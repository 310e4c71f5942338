//! Whether the machine that answers is the VM that is meant.

use std::net::IpAddr;

use talmox_plan::plan::TalosNode;
use talmox_pve::PveError;
use talmox_pve::api::qemu;
use talmox_talos_api::{Client, Expected, Look, Machine};

use crate::locate::unsaid;
use crate::step::{StepCode, StepContext, StepError};

/// Whether it is the machine that is meant. What it has not said yet does not speak against it.
pub(super) fn known(
    machine: &Machine,
    node: &TalosNode,
    address: IpAddr,
) -> Result<Look<()>, StepError> {
    told(machine, &node.expected).judge(node, address)
}

/// The same of a node of the cluster, which is asked.
pub(super) async fn known_member(
    client: &Client,
    node: &TalosNode,
    address: IpAddr,
) -> Result<Look<()>, StepError> {
    ask(client, node).await.judge(node, address)
}

/// What a machine says of itself, held against what it should say.
#[derive(Debug)]
pub(super) enum Told {
    Same,
    NotYet(String),
    Other(String),
}

impl Told {
    fn judge(self, node: &TalosNode, address: IpAddr) -> Result<Look<()>, StepError> {
        match self {
            Self::Same => Ok(Look::Done(())),
            Self::NotYet(reason) => Ok(Look::NotYet(reason)),
            Self::Other(why) => Err(stranger(node, address, &why)),
        }
    }
}

/// Asks a node of the cluster. Its certificate tells that it is one, and what it is made of tells which; the drive or
/// volume of its first boot may be long gone.
pub(super) async fn ask(client: &Client, node: &TalosNode) -> Told {
    let expected = Expected { instance_id: None, ..node.expected.clone() };
    match Machine::read(client).await {
        Ok(machine) => told(&machine, &expected),
        Err(error) => Told::NotYet(error.reason()),
    }
}

pub(super) fn told(machine: &Machine, expected: &Expected) -> Told {
    if let Some(missing) = unsaid(machine, expected) {
        return Told::NotYet(format!("it has not told its {missing} yet"));
    }
    machine.mismatch(expected).map_or(Told::Same, Told::Other)
}

pub(super) fn stranger(node: &TalosNode, address: IpAddr, why: &str) -> StepError {
    let vmid = node.own.vm.vmid;
    StepError::failed(
        StepCode::WrongMachine,
        format!("at {address} there is not the VM {vmid} of {}: {why}", node.name),
    )
    .hint(
        "nothing was sent to it; find out which machine has the address, or give the node another",
    )
}

/// Whether a machine was booted with the drive that Proxmox wrote for the VM; if so, all that it is known by.
///
/// The drive was written when the VM was started, and Proxmox tells what it would write now. Files of somebody's own
/// on it (`cicustom`) Proxmox does not count in: their VMs are known by the rest.
pub(super) async fn by_drive(
    machine: &Machine,
    node: &TalosNode,
    address: IpAddr,
    context: &StepContext,
) -> Result<Look<Expected>, StepError> {
    if machine.instance_id.is_none() {
        return Ok(Look::NotYet("it has not told its instance id yet".to_owned()));
    }
    let vm = &node.own.vm;
    let unknown = |error: PveError| {
        Ok(Look::NotYet(format!("Proxmox does not tell which drive it has: {error}")))
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
        Ok(_) => Err(stranger(node, address, &why).hint(format!(
            "nothing was sent to it; if it is the VM, its cloud-init settings were changed since it was started: on \
             {}, qm stop {vmid} && qm start {vmid}. If not, find out which machine has the address",
            vm.node,
            vmid = vm.vmid,
        ))),
        Err(error) => unknown(error),
    }
}
