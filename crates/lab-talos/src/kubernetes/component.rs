//! What a control plane runs beside etcd, and how often its settings changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::Facts;

/// The API server, the controller manager and the scheduler of one node, by their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Components(pub(crate) BTreeMap<&'static str, Component>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Component {
    pub(crate) image: String,
    /// All settings that end up in the pod.
    settings: Value,
    /// Grows with each change: the version of the resource, and the annotation of the pod.
    pub(crate) version: u64,
}

pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";

impl Components {
    /// What the config wants, counted on from what was before.
    pub(crate) fn next(&self, facts: &Facts) -> Self {
        let common = json!([facts.pod_subnets, facts.service_subnets, facts.dns_domain]);
        let all = [
            (
                API_SERVER,
                &facts.api_server_image,
                json!([common, facts.api_sans, facts.admission_control]),
            ),
            (CONTROLLER_MANAGER, &facts.controller_manager_image, common.clone()),
            (SCHEDULER, &facts.scheduler_image, common.clone()),
        ];
        let components = all.into_iter().map(|(id, image, settings)| {
            let known = self.0.get(id);
            let is_same = known.is_some_and(|k| k.image == *image && k.settings == settings);
            let version = known.map_or(1, |known| known.version + u64::from(!is_same));
            (id, Component { image: image.clone(), settings, version })
        });
        Self(components.collect())
    }
}
