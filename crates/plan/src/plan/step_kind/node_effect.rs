//! Effects of steps on nodes.

/// Effect of a step on its node. A run that is limited by `--node` or `--only` keeps or removes all steps of a node together
/// if one of them interrupts the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEffect {
    /// The node runs on, or the step has no node.
    None,
    /// The step creates the VM of the node.
    Creates,
    /// The step is part of a chain that stops, reboots or removes the node.
    Interrupts,
    /// The step destroys the VM of the node.
    Destroys,
}
