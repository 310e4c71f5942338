//! Checks of `ignore:`.

use crate::cluster::Node;
use crate::diagnostic::{Code, Diagnostic, Findings};

pub(super) fn check(node: &Node, out: &mut Findings) {
    for ignored in node.settings().ignore.iter() {
        if ignored.value.path.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the ignored difference has no path")
                    .at(ignored.span)
                    .hint("add `path: …`, such as `path: memory` or `path: machine.sysctls`"),
            );
        }
        if ignored.value.reason.is_absent() {
            out.push(
                Diagnostic::error(Code::Missing, "the ignored difference has no reason")
                    .at(ignored.span)
                    .hint("add `reason: …`, which plans and `talmox status` show"),
            );
        }
    }
}
