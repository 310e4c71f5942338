//! Control-plane components other than etcd, with the versions of their settings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::Facts;

/// API server, controller manager and scheduler of one node, by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Components(pub(crate) BTreeMap<&'static str, Component>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Component {
    pub(crate) image: String,
    /// Settings other than the image that the pod of the component depends on.
    settings: Value,
    /// Number that increases with each change of the settings. It is the version of the resource, and an annotation of the pod.
    pub(crate) version: u64,
}

pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";

impl Components {
    /// Components for a new config. The version of each component that changed is increased.
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
