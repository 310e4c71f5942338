//! Questions on the terminal for the consent to lose the disks of nodes.

use std::collections::BTreeSet;

use talmox_plan::plan::{Left, Plan};

use crate::confirm;
use crate::error::CommandError;
use crate::printer::Printer;

/// Nodes that the plan leaves because the user has not consented to lose their disks.
pub(super) fn nodes_without_consent(plan: &Plan) -> BTreeSet<String> {
    let left = plan.open_changes().filter(|change| change.left == Some(Left::NeedsConsent));
    left.filter_map(|change| change.object.node()).map(str::to_owned).collect()
}

/// Asks the user to enter the name of each node, and returns the nodes that the user agreed to. Asks again after another
/// name, because a typing error must not look like a decision.
pub(super) fn ask(
    nodes: BTreeSet<String>,
    printer: &Printer,
) -> Result<BTreeSet<String>, CommandError> {
    let mut agreed = BTreeSet::new();
    for node in nodes {
        let question = format!(
            "The disks of {node} would be deleted. To allow it, enter the name of the node, `{node}`; to leave the node as it is, press Enter:"
        );
        loop {
            let answer = confirm::ask(&question)?;
            if answer == node {
                agreed.insert(node);
                break;
            }
            if answer.is_empty() {
                printer.say_always(&format!("{node} is left as it is."));
                break;
            }
            printer.say_always(&format!("`{answer}` is not the name of this node."));
        }
    }
    Ok(agreed)
}
