//! Nodes that a command works on: names, a role, or all nodes.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use talmox_plan::desired::{Desired, DesiredNode};

use crate::command_code::CommandCode;
use crate::error::CommandError;

#[derive(Debug, Args)]
pub(super) struct NodeChoice {
    /// Nodes, by their names in the inventory
    #[arg(value_name = "NODE", required_unless_present_any = ["role", "all"])]
    #[arg(conflicts_with_all = ["role", "all"])]
    nodes: Vec<String>,

    /// All nodes with this role: controlplane or worker
    #[arg(long, value_name = "ROLE", hide_possible_values = true, conflicts_with = "all")]
    role: Option<RoleArg>,

    /// All nodes of the cluster
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    #[value(name = "controlplane")]
    ControlPlane,
    Worker,
}

impl NodeChoice {
    /// Names of the selected nodes.
    pub(super) fn names(&self, desired: &Desired) -> Result<BTreeSet<String>, CommandError> {
        if !self.nodes.is_empty() {
            return named(&self.nodes, desired);
        }
        let is_chosen = |node: &&DesiredNode| match self.role {
            Some(RoleArg::ControlPlane) => node.is_control_plane,
            Some(RoleArg::Worker) => !node.is_control_plane,
            None => true,
        };
        let chosen: BTreeSet<String> =
            desired.nodes.iter().filter(is_chosen).map(|node| node.name.clone()).collect();
        if chosen.is_empty() {
            let message = format!("`{}` has no node with this role", desired.cluster);
            return Err(CommandError::usage_as(CommandCode::NodeNotFound, message)
                .hint("run `talmox status` to see the nodes"));
        }
        Ok(chosen)
    }
}

/// Set of these names. Returns an error if one of them is not a node of the inventory.
pub(in crate::command) fn named(
    names: &[String],
    desired: &Desired,
) -> Result<BTreeSet<String>, CommandError> {
    if let Some(name) = names.iter().find(|name| desired.node(name).is_none()) {
        let known: Vec<&str> = desired.nodes.iter().map(|node| node.name.as_str()).collect();
        let hint = match talmox_model::closest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("nodes: {}", known.join(", ")),
        };
        let message = format!("there is no node `{name}` in `{}`", desired.cluster);
        return Err(CommandError::usage_as(CommandCode::NodeNotFound, message).hint(hint));
    }
    Ok(names.iter().cloned().collect())
}
