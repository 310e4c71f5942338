//! MAC address in an expression that selects one network link.

use super::parser::{Expression, Node, parse};

/// MAC address in an expression such as `mac(link.permanent_addr) == "bc:24:11:00:00:00"`, as it is written there.
/// `None` for every other expression.
pub fn link_mac(source: &str) -> Option<String> {
    let Node::Call(operator, None, sides) = parse(source).ok()?.node else { return None };
    match (operator.as_str(), sides.as_slice()) {
        ("_==_", [left, Expression { node: Node::Text(mac), .. }]) if is_mac_of_link(left) => {
            Some(mac.clone())
        }
        _ => None,
    }
}

fn is_mac_of_link(expression: &Expression) -> bool {
    let Node::Call(function, None, arguments) = &expression.node else { return false };
    let [Expression { node: Node::Select(link, field, false), .. }] = arguments.as_slice() else {
        return false;
    };
    function == "mac"
        && matches!(&link.node, Node::Ident(name) if name == "link")
        && matches!(field.as_str(), "permanent_addr" | "hardware_addr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_comparison_with_the_mac_of_the_link_counts() {
        for source in [
            "mac(link.permanent_addr) == \"bc:24:11:00:00:0A\"",
            "mac( link.hardware_addr )=='bc:24:11:00:00:0A' // the first card",
        ] {
            assert_eq!(link_mac(source).as_deref(), Some("bc:24:11:00:00:0A"), "{source}");
        }
        for source in [
            "",
            "link.driver == 'virtio'",
            "mac(link.permanent_addr) != 'bc:24:11:00:00:0A'",
            "mac(link.permanent_addr) == 'bc:24:11:00:00:0A' && true",
            "mac(other.permanent_addr) == 'bc:24:11:00:00:0A'",
            "mac(link.broadcast_addr) == 'bc:24:11:00:00:0A'",
            "mac(link.permanent_addr) == 1",
        ] {
            assert_eq!(link_mac(source), None, "{source}");
        }
    }
}
