//! Members of etcd that are not among the adopted nodes. Such a member may be a control plane that does not answer, or one that is gone
//! and still counts for the quorum.

use std::collections::BTreeSet;

use talmox_talos_api::client::Member;

use super::adoption::Left;
use super::inventory_text::AdoptedNode;
use super::running_node::RunningNode;

const NOT_COMPARED: &str =
    "no control plane reports its members, so they were not compared with the nodes";
const NO_NODE: &str = "etcd lists it as a member, but no adopted node has this name. If it is gone for good, remove it from etcd: \
                       `talmox etcd remove-member`";

/// Name of a member. A member that has not started yet has no name.
pub(super) fn name(member: &Member) -> String {
    if member.hostname.is_empty() {
        format!("member {:016x}", member.id)
    } else {
        member.hostname.clone()
    }
}

/// The members of etcd without an adopted node that `left` does not list yet, with the reason.
pub(super) fn left(running: &[RunningNode], adopted: &[AdoptedNode], left: &[Left]) -> Vec<Left> {
    let lists: Vec<&Vec<String>> =
        running.iter().filter_map(|node| node.etcd_members.as_ref()).collect();
    if lists.is_empty() {
        return vec![Left { node: "etcd".to_owned(), reason: NOT_COMPARED.to_owned() }];
    }
    let members = lists.into_iter().flatten().map(String::as_str);
    let adopted = adopted.iter().map(|adopted| adopted.node.name.as_str());
    let known = adopted.chain(left.iter().map(|left| left.node.as_str()));
    let missing = missing(members, known).into_iter();
    missing.map(|node| Left { node, reason: NO_NODE.to_owned() }).collect()
}

/// The members whose name is not known. The name of a node in Kubernetes may have a domain, and is in lower case.
fn missing<'a>(
    members: impl Iterator<Item = &'a str>,
    known: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let label = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    let known: BTreeSet<String> = known.map(label).collect();
    members.filter(|member| !known.contains(&label(member))).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_compared_without_domain_and_case() {
        let missing = |members: &[&'static str], known: &[&'static str]| {
            let missing = missing(members.iter().copied(), known.iter().copied());
            missing.into_iter().collect::<Vec<String>>()
        };
        assert_eq!(missing(&["CP-1", "cp-2"], &["cp-1.example.com", "cp-2"]), [""; 0]);
        assert_eq!(missing(&["cp-1", "cp-3", "cp-3"], &["cp-1", "wk-1"]), ["cp-3"]);
        let unnamed = Member { id: 10, ..Member::default() };
        assert_eq!(name(&unnamed), "member 000000000000000a");
    }
}
