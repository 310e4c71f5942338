//! Checks of `ignore:`.

use super::ignored_path::{is_known, suggestion};
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
        if let Some(path) = ignored.value.path.spanned().filter(|path| !is_known(&path.value)) {
            let message = format!("no plan shows a field `{}`, so nothing is ignored", path.value);
            let hint = match suggestion(&path.value) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    "use a field as `talmox plan` shows it, such as `memory` or `machine.sysctls`"
                        .to_owned()
                }
            };
            out.push(Diagnostic::warning(Code::Questionable, message).at(path.span).hint(hint));
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
