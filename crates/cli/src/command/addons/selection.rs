//! Add-ons that a command works on.

use clap::Args;

use crate::addons::{AddonChart, charts};
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;

// clap would show a doc comment of this struct in place of the summary of the command.
#[derive(Debug, Args)]
pub(super) struct ChartArgs {
    /// Add-ons with a chart [default: all]
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,

    /// Cluster [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    pub(super) cluster: Option<String>,
}

impl ChartArgs {
    /// Selected charts. Returns an error for a name that is not an add-on with a chart.
    pub(super) fn charts<'a>(
        &self,
        chosen: &'a Chosen,
    ) -> Result<Vec<AddonChart<'a>>, CommandError> {
        let mut all = charts(chosen);
        for name in &self.names {
            if all.iter().any(|chart| chart.name == name) {
                continue;
            }
            let known: Vec<&str> = all.iter().map(|chart| chart.name).collect();
            let message = format!("no add-on with a chart is named `{name}`");
            let hint = if known.is_empty() {
                "this cluster has no add-ons with charts".to_owned()
            } else {
                format!("use one of these names: {}", known.join(", "))
            };
            return Err(CommandError::usage_as(CommandCode::AddonUnknown, message).hint(hint));
        }
        if !self.names.is_empty() {
            all.retain(|chart| self.names.iter().any(|name| name == chart.name));
        }
        Ok(all)
    }
}
