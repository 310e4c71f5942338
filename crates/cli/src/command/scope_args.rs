//! Flags of `up` and `plan` that limit a run or give consent to lose data.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use talmox_model::closest;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{EtcdSeen, KubernetesSeen, Observed, TalosSeen};
use talmox_plan::planning::{self, Part, RemovalConsent, Scope};

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::words;

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits and consent")]
pub(super) struct ScopeArgs {
    /// Change only these nodes; repeat the option, or separate names by commas
    #[arg(long = "node", value_name = "NAME", value_delimiter = ',')]
    nodes: Vec<String>,

    /// Change only this part of the cluster
    #[arg(long, value_name = "PART")]
    only: Option<OnlyPart>,

    /// Maximum number of workers that are down at a time; control planes always change one by one [default: 1]
    #[arg(long, value_name = "WORKERS")]
    max_unavailable: Option<NonZeroUsize>,

    /// Allow the removal and replacement of nodes, which deletes their disks: of all nodes, or of these (=NAME,NAME)
    ///
    /// --yes alone does not allow it. On a terminal, `up` asks for the name of each node instead.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ','
    )]
    allow_removal: Option<Vec<String>>,
}

/// Values of `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnlyPart {
    Images,
    Vms,
    Configs,
    Addons,
}

impl OnlyPart {
    fn part(self) -> Part {
        match self {
            Self::Images => Part::Images,
            Self::Vms => Part::Vms,
            Self::Configs => Part::Configs,
            Self::Addons => Part::Addons,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Vms => "vms",
            Self::Configs => "configs",
            Self::Addons => "addons",
        }
    }
}

impl ScopeArgs {
    /// Whether any of the flags was passed.
    pub(super) fn is_given(&self) -> bool {
        !self.nodes.is_empty()
            || self.only.is_some()
            || self.max_unavailable.is_some()
            || self.allow_removal.is_some()
    }

    /// Scope of the run. Returns an error for a name that no node has.
    pub(super) fn scope(
        &self,
        desired: &Desired,
        observed: &Observed,
    ) -> Result<Scope, CommandError> {
        let named = self.nodes.iter().chain(self.allow_removal.iter().flatten());
        let known = known_names(desired, observed);
        for name in named {
            if !known.contains(name.as_str()) {
                return Err(unknown(name, &known));
            }
        }
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
        let removal = match self.allow_removal.as_deref() {
            None => RemovalConsent::None,
            Some([]) => RemovalConsent::All,
            Some(names) => RemovalConsent::Nodes(set(names)),
        };
        Ok(Scope {
            nodes: Some(set(&self.nodes)).filter(|nodes| !nodes.is_empty()),
            only: self.only.map(OnlyPart::part),
            removal,
            max_unavailable: self.max_unavailable.unwrap_or(NonZeroUsize::MIN),
            ..Scope::default()
        })
    }

    /// Flags as arguments of another command. Each flag has a leading space.
    pub(super) fn arguments(&self) -> String {
        let mut text = String::new();
        if !self.nodes.is_empty() {
            text.push_str(&format!(" --node {}", words::quoted(&self.nodes.join(","))));
        }
        if let Some(only) = self.only {
            text.push_str(&format!(" --only {}", only.as_str()));
        }
        if let Some(count) = self.max_unavailable {
            text.push_str(&format!(" --max-unavailable {count}"));
        }
        match self.allow_removal.as_deref() {
            None => {}
            Some([]) => text.push_str(" --allow-removal"),
            Some(names) => {
                let names = words::quoted(&names.join(","));
                text.push_str(&format!(" --allow-removal={names}"));
            }
        }
        text
    }
}

/// Names of the nodes in the inventory, of the orphans, and of the etcd members.
fn known_names(desired: &Desired, observed: &Observed) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = desired.nodes.iter().map(|node| node.name.clone()).collect();
    let places = planning::places(desired, &observed.pve);
    names.extend(places.removed.iter().map(|(own, _)| own.identity.node.clone()));
    for seen in observed.nodes.values() {
        if let TalosSeen::OwnNode(found) = seen
            && let EtcdSeen::Member { names: members } = &found.etcd
        {
            names.extend(members.iter().cloned());
        }
    }
    if let KubernetesSeen::Answers(registered) = &observed.kubernetes {
        names.extend(registered.unknown.keys().cloned());
    }
    names
}

fn unknown(name: &str, known: &BTreeSet<String>) -> CommandError {
    let hint = if let Some(near) = closest(name, known.iter().map(String::as_str)) {
        format!("did you mean `{near}`?")
    } else {
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        format!("nodes: {}", names.join(", "))
    };
    CommandError::usage_as(CommandCode::NodeNotFound, format!("there is no node `{name}`"))
        .hint(hint)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        cluster: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    }

    fn parse(line: &str) -> Line {
        Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn names_are_separated_by_commas_or_given_repeatedly() {
        assert_eq!(parse("up --node a,b --node c dev").scope.nodes, ["a", "b", "c"]);
        assert!(!parse("up dev").scope.is_given());
    }

    #[test]
    fn consent_is_for_all_nodes_or_for_the_named_ones() {
        let all = parse("up --allow-removal dev");
        assert_eq!(all.cluster.as_deref(), Some("dev"), "the name of the cluster is not a node");
        assert_eq!(all.scope.allow_removal, Some(vec![]));
        let some = parse("up --allow-removal=wk-1,wk-2 dev");
        assert_eq!(some.scope.allow_removal, Some(vec!["wk-1".to_owned(), "wk-2".to_owned()]));
        assert_eq!(parse("up dev").scope.allow_removal, None);
    }

    #[test]
    fn the_flags_can_be_repeated_in_another_command() {
        let line = "--node a,b --only vms --max-unavailable 3 --allow-removal=a";
        assert_eq!(parse(&format!("up {line}")).scope.arguments(), format!(" {line}"));
        assert_eq!(parse("up --allow-removal").scope.arguments(), " --allow-removal");
        assert_eq!(parse("up").scope.arguments(), "");
    }

    #[test]
    fn no_node_at_once_is_not_a_number_of_nodes() {
        assert!(Line::try_parse_from(["up", "--max-unavailable", "0"]).is_err());
        assert!(Line::try_parse_from(["up", "--only", "disks"]).is_err());
    }
}
