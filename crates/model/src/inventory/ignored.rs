//! Differences that the user accepts.

use crate::language::{Setting, mapping};

mapping! {
    /// A difference between inventory and cluster that is accepted: it is shown with its reason, and no run changes it.
    called "an entry of `ignore`"
    pub struct IgnoredDifference {
        /// The field as `talmox plan` shows it: a VM option such as `memory`, or a path of the machine config such as
        /// `machine.sysctls`, which covers everything below it.
        path ["field"]: Setting<String>,
        /// Why the difference is accepted.
        reason: Setting<String>,
    }
}
