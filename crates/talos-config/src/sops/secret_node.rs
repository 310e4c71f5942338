//! Trees of decrypted values. Dropping such a tree overwrites its memory.

use std::fmt;
use std::ops::{Deref, DerefMut};

use talmox_yaml::{Node, Value};
use zeroize::Zeroize as _;

use crate::secret::REDACTED;

/// Tree that `Debug` redacts.
#[derive(Clone, PartialEq)]
pub struct SecretNode(Node);

impl SecretNode {
    pub fn new(node: Node) -> Self {
        Self(node)
    }
}

impl Deref for SecretNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for SecretNode {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for SecretNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Documents of a file. Dropping them overwrites their memory.
#[derive(Clone)]
pub(super) struct SecretNodes(pub(super) Vec<Node>);

impl Deref for SecretNodes {
    type Target = Vec<Node>;

    fn deref(&self) -> &Vec<Node> {
        &self.0
    }
}

impl DerefMut for SecretNodes {
    fn deref_mut(&mut self) -> &mut Vec<Node> {
        &mut self.0
    }
}

impl Drop for SecretNodes {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(wipe);
    }
}

/// Overwrites every text of a tree, including comments.
pub(super) fn wipe(node: &mut Node) {
    match &mut node.value {
        Value::Scalar(scalar) => scalar.text.zeroize(),
        Value::Seq(seq) => seq.items.iter_mut().for_each(wipe),
        Value::Map(map) => {
            for entry in &mut map.entries {
                if entry.as_comment().is_some() {
                    wipe(&mut entry.key);
                }
                wipe(&mut entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_and_comment_is_overwritten() {
        let text = "# one\na: {b: two, c: [three, {d: four}]}\n";
        let mut tree = talmox_yaml::read_with_comments(text).unwrap().remove(0);
        assert!(talmox_yaml::emit(&tree, 4).contains("four"));
        wipe(&mut tree);
        let left = talmox_yaml::emit(&tree, 4);
        for secret in ["one", "two", "three", "four"] {
            assert!(!left.contains(secret), "{secret}: {left}");
        }
        assert_eq!(format!("{:?}", SecretNode::new(tree)), REDACTED);
    }
}
