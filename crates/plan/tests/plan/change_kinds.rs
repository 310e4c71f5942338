//! A step of every kind that changes, drains or removes a node that exists.

use talmox_plan::plan::{
    Action, ChangeConfig, ChangeVm, ConfigMode, DeleteNode, DrainNode, MigrateVm, RebootNode,
    RemoveMember, ResetNode, RestartKubelet, RestoreMarker, ShutdownNode, UncordonNode,
};
use talmox_talos_config::secret::SecretText;

use crate::every_kind::{DEADLINE, SECRET, network, options, own, talos_node};

pub(crate) fn actions() -> Vec<Action> {
    let (node, deadline) = ("cp-1".to_owned(), DEADLINE);
    vec![
        Action::ChangeVm(ChangeVm {
            own: own(),
            set: options(),
            delete: vec!["net1".to_owned()],
            pool: Some("talos".parse().unwrap()),
            deadline,
        }),
        Action::MigrateVm(MigrateVm {
            own: own(),
            target: "pve2".parse().unwrap(),
            is_online: true,
            deadline,
        }),
        Action::RestoreMarker(RestoreMarker { own: own(), cluster: "home".to_owned(), deadline }),
        Action::DrainNode(DrainNode { node: node.clone(), evicts: true, deadline }),
        Action::ShutdownNode(ShutdownNode {
            own: own(),
            talos: Some(talos_node()),
            control_planes: vec![talos_node()],
            deadline,
        }),
        Action::RebootNode(RebootNode {
            node: talos_node(),
            control_planes: vec![talos_node()],
            deadline,
        }),
        Action::RestartKubelet(RestartKubelet {
            node: talos_node(),
            awaits_ready: true,
            control_planes: vec![talos_node()],
            deadline,
        }),
        Action::ChangeConfig(ChangeConfig {
            node: talos_node(),
            contact: talos_node().contact,
            config: SecretText::new(SECRET).into(),
            mode: ConfigMode::Try,
            control_planes: vec![],
            shape: network(),
            deadline,
        }),
        Action::UncordonNode(UncordonNode {
            node: node.clone(),
            awaits_ready: true,
            is_asked: false,
            deadline,
        }),
        Action::RemoveMember(RemoveMember {
            member: node.clone(),
            node: Some(talos_node()),
            others: vec![talos_node()],
            deadline,
        }),
        Action::ResetNode(ResetNode { node: talos_node(), deadline }),
        Action::DeleteNode(DeleteNode { node, only_unready: true, deadline }),
    ]
}
