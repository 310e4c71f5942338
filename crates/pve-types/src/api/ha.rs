//! High availability (HA): VMs that Proxmox keeps running, and the nodes that they may run on.
//!
//! PVE 8 assigns nodes with groups, and PVE 9 with rules. PVE 8 rejects the calls for rules, and PVE 9 rejects the
//! calls for groups.

use serde_json::Value;

use crate::id::{ConfigId, Digest, NodeName, VmId};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// VM or container that HA manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// ID of the resource: `vm:300` for a VM, `ct:300` for a container.
    pub sid: String,
    /// Requested state: `started`, `stopped`, `ignored` or `disabled`.
    pub state: String,
    /// Group of the resource; PVE 8 only.
    pub group: Option<String>,
    pub max_restart: Option<u64>,
    pub max_relocate: Option<u64>,
    pub comment: Option<String>,
}

impl Resource {
    /// vmid of the resource; `None` for a container.
    pub fn vmid(&self) -> Option<VmId> {
        self.sid.strip_prefix("vm:")?.parse().ok()
    }
}

impl Decode for Resource {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            sid: fields.need_text("sid")?,
            state: fields.text("state").unwrap_or_else(|| "started".to_owned()),
            group: fields.text("group"),
            max_restart: fields.number("max_restart"),
            max_relocate: fields.number("max_relocate"),
            comment: fields.text("comment"),
        })
    }
}

/// HA settings of a VM. Proxmox chooses the values of absent settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaSettings {
    pub state: Option<String>,
    /// Group of the resource; PVE 8 only.
    pub group: Option<ConfigId>,
    pub max_restart: Option<u32>,
    pub max_relocate: Option<u32>,
    pub comment: Option<String>,
}

pub fn resources() -> Request<Vec<Resource>> {
    Request::get(&[&"cluster", &"ha", &"resources"])
}

pub fn add_resource(vmid: VmId, settings: &HaSettings) -> Request<()> {
    let request = Request::post(&[&"cluster", &"ha", &"resources"]);
    with_settings(request.with("sid", sid(vmid)), settings)
}

pub fn update_resource(vmid: VmId, settings: &HaSettings) -> Request<()> {
    with_settings(Request::put(&[&"cluster", &"ha", &"resources", &sid(vmid)]), settings)
}

pub fn delete_resource(vmid: VmId) -> Request<()> {
    Request::delete(&[&"cluster", &"ha", &"resources", &sid(vmid)])
}

fn sid(vmid: VmId) -> String {
    format!("vm:{vmid}")
}

fn with_settings(request: Request<()>, settings: &HaSettings) -> Request<()> {
    request
        .with_some("state", settings.state.as_ref())
        .with_some("group", settings.group.as_ref())
        .with_some("max_restart", settings.max_restart)
        .with_some("max_relocate", settings.max_relocate)
        .with_some("comment", settings.comment.as_ref())
}

/// Nodes that the resources of a group may run on, with priorities; PVE 8 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub group: ConfigId,
    pub nodes: Vec<(NodeName, Option<u32>)>,
    /// Whether the resources stay stopped while none of these nodes is available.
    pub restricted: bool,
    pub comment: Option<String>,
}

impl Decode for Group {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            group: fields.need("group")?,
            nodes: nodes(fields)?,
            restricted: fields.flag("restricted"),
            comment: fields.text("comment"),
        })
    }
}

/// Parses nodes with their priorities: `pve1:2,pve2`.
fn nodes(fields: Fields<'_>) -> Result<Vec<(NodeName, Option<u32>)>, Unreadable> {
    let ranked = |entry: String| {
        let (node, rank) = entry.split_once(':').unwrap_or((&entry, ""));
        Ok((node.parse()?, rank.parse().ok()))
    };
    fields.list("nodes").into_iter().map(ranked).collect()
}

fn ranked(nodes: &[(NodeName, Option<u32>)]) -> String {
    let one = |(node, rank): &(NodeName, Option<u32>)| match rank {
        Some(rank) => format!("{node}:{rank}"),
        None => node.to_string(),
    };
    nodes.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Lists the groups; PVE 8 only.
pub fn groups() -> Request<Vec<Group>> {
    Request::get(&[&"cluster", &"ha", &"groups"])
}

/// Creates a group; PVE 8 only.
pub fn create_group(group: &Group) -> Request<()> {
    Request::post(&[&"cluster", &"ha", &"groups"])
        .with("group", &group.group)
        .with("nodes", ranked(&group.nodes))
        .with_flag("restricted", group.restricted)
        .with_some("comment", group.comment.as_ref())
}

/// Deletes a group; PVE 8 only.
pub fn delete_group(group: &ConfigId) -> Request<()> {
    Request::delete(&[&"cluster", &"ha", &"groups", group])
}

/// Rule for the nodes that resources run on; PVE 9 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub rule: ConfigId,
    pub kind: RuleKind,
    /// IDs of the resources, such as `vm:300`.
    pub resources: Vec<String>,
    pub disabled: bool,
    pub comment: Option<String>,
    pub digest: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// The resources prefer these nodes. If `strict` is set, they run only on these nodes.
    NodeAffinity { nodes: Vec<(NodeName, Option<u32>)>, strict: bool },
    /// All resources run on the same node.
    Together,
    /// Each resource runs on a different node.
    Apart,
}

impl Decode for Rule {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let affinity = fields.text("affinity");
        let kind = match (fields.need_text("type")?.as_str(), affinity.as_deref()) {
            ("node-affinity", _) => {
                RuleKind::NodeAffinity { nodes: nodes(fields)?, strict: fields.flag("strict") }
            }
            ("resource-affinity", Some("positive")) => RuleKind::Together,
            ("resource-affinity", Some("negative")) => RuleKind::Apart,
            (kind, _) => {
                return Err(Unreadable(format!("an HA rule has the unknown type `{kind}`")));
            }
        };
        Ok(Self {
            rule: fields.need("rule")?,
            kind,
            resources: fields.list("resources"),
            disabled: fields.flag("disable"),
            comment: fields.text("comment"),
            digest: fields.id("digest")?,
        })
    }
}

/// Lists the rules; PVE 9 only.
pub fn rules() -> Request<Vec<Rule>> {
    Request::get(&[&"cluster", &"ha", &"rules"])
}

/// Creates a rule; PVE 9 only.
pub fn create_rule(rule: &Rule) -> Request<()> {
    let request = Request::post(&[&"cluster", &"ha", &"rules"]).with("rule", &rule.rule);
    with_rule(request, rule)
}

/// Updates a rule. The update fails if another client changed the rule since its digest was read. PVE 9 only.
pub fn update_rule(rule: &Rule) -> Request<()> {
    let request = Request::put(&[&"cluster", &"ha", &"rules", &rule.rule]);
    with_rule(request, rule).with_some("digest", rule.digest.as_ref())
}

fn with_rule(request: Request<()>, rule: &Rule) -> Request<()> {
    let request = match &rule.kind {
        RuleKind::NodeAffinity { nodes, strict } => request
            .with("type", "node-affinity")
            .with("nodes", ranked(nodes))
            .with("strict", u8::from(*strict)),
        RuleKind::Together => {
            request.with("type", "resource-affinity").with("affinity", "positive")
        }
        RuleKind::Apart => request.with("type", "resource-affinity").with("affinity", "negative"),
    };
    request
        .with("resources", rule.resources.join(","))
        .with_flag("disable", rule.disabled)
        .with_some("comment", rule.comment.as_ref())
}

/// Deletes a rule; PVE 9 only.
pub fn delete_rule(rule: &ConfigId) -> Request<()> {
    Request::delete(&[&"cluster", &"ha", &"rules", rule])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_are_named_by_kind_and_number() {
        let vmid = VmId::new(300).unwrap();
        let settings = HaSettings {
            state: Some("started".to_owned()),
            max_restart: Some(3),
            ..HaSettings::default()
        };
        assert_eq!(
            add_resource(vmid, &settings).body().unwrap(),
            "sid=vm%3A300&state=started&max_restart=3"
        );
        assert_eq!(delete_resource(vmid).target(), "/api2/json/cluster/ha/resources/vm%3A300");
        let read = Resource::decode(&json!({"sid": "vm:300", "max_restart": "1"})).unwrap();
        assert_eq!((read.vmid(), read.max_restart), (Some(vmid), Some(1)));
    }

    #[test]
    fn rules_and_groups_round_trip() {
        let data = json!({"rule": "spread", "type": "resource-affinity", "affinity": "negative", "resources": "vm:1,vm:2"});
        let rule = Rule::decode(&data).unwrap();
        assert_eq!(rule.kind, RuleKind::Apart);
        assert_eq!(
            create_rule(&rule).body().unwrap(),
            "rule=spread&type=resource-affinity&affinity=negative&resources=vm%3A1%2Cvm%3A2"
        );
        let group =
            Group::decode(&json!({"group": "here", "nodes": "pve1:2,pve2", "restricted": 1}))
                .unwrap();
        assert_eq!(
            create_group(&group).body().unwrap(),
            "group=here&nodes=pve1%3A2%2Cpve2&restricted=1"
        );
    }
}
