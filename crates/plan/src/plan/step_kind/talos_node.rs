//! Nodes that steps work on.

use serde::{Deserialize, Serialize};
use talmox_talos_config::machine::Expected;

use super::own_vm::OwnVm;
use crate::desired::Contact;

/// A node that runs Talos.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalosNode {
    pub name: String,
    pub own: OwnVm,
    pub contact: Contact,
    /// The identity that the machine at the address must report. Only then does talmox send a config to the machine or use
    /// its answers.
    pub expected: Expected,
    pub is_control_plane: bool,
}
