//! COSI resources of a machine, read as YAML.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use talmox_talos_config::secret::SecretText;
use talmox_talos_config::time::UnixTime;
use talmox_yaml::Node;
use tonic::Code;

use super::{Answers, Client};
use crate::error::{Call, TalosError};
use crate::proto::cosi::resource::{
    self as wire, EventType, GetRequest, ListRequest, WatchOptions, WatchRequest, WatchResponse,
};

/// Type and namespace of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceKind<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl ResourceKind<'static> {
    pub const MACHINE_STATUS: Self = Self::new("runtime", "MachineStatuses.runtime.talos.dev");
    pub const MACHINE_CONFIG: Self = Self::new("config", "MachineConfigs.config.talos.dev");
    pub const SYSTEM_INFORMATION: Self =
        Self::new("hardware", "SystemInformations.hardware.talos.dev");
    pub const LINK_STATUS: Self = Self::new("network", "LinkStatuses.net.talos.dev");
    pub const PLATFORM_METADATA: Self = Self::new("runtime", "PlatformMetadatas.talos.dev");
    pub const DIAGNOSTIC: Self = Self::new("runtime", "Diagnostics.runtime.talos.dev");
    pub const EXTENSION_STATUS: Self = Self::new("runtime", "ExtensionStatuses.runtime.talos.dev");
    pub const MEMBER: Self = Self::new("cluster", "Members.cluster.talos.dev");
    pub const SERVICE: Self = Self::new("runtime", "Services.v1alpha1.talos.dev");
    pub const VOLUME_STATUS: Self = Self::new("runtime", "VolumeStatuses.block.talos.dev");
    pub const ADDRESS_STATUS: Self = Self::new("network", "AddressStatuses.net.talos.dev");
    pub const ADDRESS_SPEC: Self = Self::new("network", "AddressSpecs.net.talos.dev");
    pub const NETWORK_STATUS: Self = Self::new("network", "NetworkStatuses.net.talos.dev");
    pub const ROUTE_STATUS: Self = Self::new("network", "RouteStatuses.net.talos.dev");
    pub const NODE_IP: Self = Self::new("k8s", "NodeIPs.kubernetes.talos.dev");
    pub const TIME_STATUS: Self = Self::new("runtime", "TimeStatuses.v1alpha1.talos.dev");
    pub const STATIC_POD: Self = Self::new("k8s", "StaticPods.kubernetes.talos.dev");
    pub const NODENAME: Self = Self::new("k8s", "Nodenames.kubernetes.talos.dev");
    /// Definitions of resource types: names, short names and namespaces.
    pub const DEFINITION: Self = Self::new("meta", "ResourceDefinitions.meta.cosi.dev");
}

impl<'a> ResourceKind<'a> {
    pub const fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }
}

/// COSI resource. `Debug` hides its text, because a machine config is a resource too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub namespace: String,
    pub kind: String,
    pub id: String,
    pub version: String,
    /// Controller that owns the resource; empty if it has none.
    pub owner: String,
    pub phase: String,
    pub created: UnixTime,
    pub updated: UnixTime,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    yaml: SecretText,
}

impl Resource {
    /// Text of the resource as YAML.
    pub fn yaml(&self) -> &SecretText {
        &self.yaml
    }

    /// Machine config of a resource that contains one. Up to Talos 1.11 the config is the spec itself; since 1.12 it is
    /// a string in the spec.
    pub fn config_text(&self) -> SecretText {
        let documents = talmox_yaml::read(self.yaml.expose()).unwrap_or_default();
        match documents.as_slice() {
            [only] => only.as_str().map_or_else(|| self.yaml.clone(), SecretText::new),
            _ => self.yaml.clone(),
        }
    }

    /// Text at a path of keys (`status.ready`), if present.
    pub fn text(&self, path: &str) -> Option<String> {
        let root = talmox_yaml::read_first(self.yaml.expose()).ok()??;
        let found = path
            .split('.')
            .try_fold(&root, |node, key| node.as_map().and_then(|map| map.get(key)))?;
        found.as_str().map(str::to_owned)
    }

    /// Parsed YAML of the resource; `None` if the text is empty or not valid YAML.
    pub fn tree(&self) -> Option<Node> {
        talmox_yaml::read_first(self.yaml.expose()).ok()?
    }
}

impl From<wire::Resource> for Resource {
    fn from(resource: wire::Resource) -> Self {
        let metadata = resource.metadata.unwrap_or_default();
        Self {
            namespace: metadata.namespace,
            kind: metadata.r#type,
            id: metadata.id,
            version: metadata.version,
            owner: metadata.owner,
            phase: metadata.phase,
            created: time(metadata.created),
            updated: time(metadata.updated),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            yaml: SecretText::new(resource.spec.unwrap_or_default().yaml_spec),
        }
    }
}

/// Time of a timestamp. A missing timestamp is 1970, as in talosctl.
fn time(timestamp: Option<prost_types::Timestamp>) -> UnixTime {
    UnixTime::from_seconds(timestamp.unwrap_or_default().seconds)
}

/// Change of a watched resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Created(Resource),
    Updated(Resource),
    Destroyed(Resource),
    /// All resources that existed when the watch started have been sent.
    Bootstrapped,
}

/// Stream of changes of watched resources.
#[derive(Debug)]
pub struct Watch {
    answers: Answers<WatchResponse>,
    waiting: VecDeque<wire::Event>,
}

impl Client {
    /// Reads one resource; `None` if the resource does not exist.
    pub async fn get(
        &self,
        kind: ResourceKind<'_>,
        id: &str,
    ) -> Result<Option<Resource>, TalosError> {
        let request = GetRequest {
            namespace: kind.namespace.to_owned(),
            r#type: kind.name.to_owned(),
            id: id.to_owned(),
            options: None,
        };
        let mut state = self.state();
        match self.ask_about("Get", kind.name, state.get(request)).await {
            Ok(answer) => Ok(answer.resource.map(Resource::from)),
            Err(TalosError::No { code: Code::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn list(&self, kind: ResourceKind<'_>) -> Result<Vec<Resource>, TalosError> {
        let request = ListRequest {
            namespace: kind.namespace.to_owned(),
            r#type: kind.name.to_owned(),
            options: None,
        };
        let mut state = self.state();
        let mut answers = self.stream_about("List", kind.name, state.list(request)).await?;
        let mut found = vec![];
        while let Some(answer) = answers.next_in_time().await? {
            found.extend(answer.resource.map(Resource::from));
        }
        Ok(found)
    }

    /// Watches one resource, or all resources of a type. The stream starts with the existing resources.
    pub async fn watch(
        &self,
        kind: ResourceKind<'_>,
        id: Option<&str>,
    ) -> Result<Watch, TalosError> {
        let request = WatchRequest {
            namespace: kind.namespace.to_owned(),
            r#type: kind.name.to_owned(),
            id: id.map(str::to_owned),
            // The watch of one resource always starts with its current state.
            options: Some(WatchOptions { bootstrap_contents: id.is_none(), tail_events: 0 }),
            api_version: 1,
        };
        let mut state = self.state();
        let answers = self.stream_about("Watch", kind.name, state.watch(request)).await?;
        Ok(Watch { answers, waiting: VecDeque::new() })
    }
}

impl Watch {
    /// Next change, without a timeout; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Change>, TalosError> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                if let Some(change) = read(event, self.answers.call())? {
                    return Ok(Some(change));
                }
            }
            match self.answers.next().await? {
                None => return Ok(None),
                Some(answer) => self.waiting.extend(answer.event),
            }
        }
    }
}

/// Parses an event; `None` for an event without a change.
fn read(event: wire::Event, call: &Call) -> Result<Option<Change>, TalosError> {
    let kind = EventType::try_from(event.event_type);
    let resource = event.resource.map(Resource::from);
    match (kind, resource) {
        (Ok(EventType::Created), Some(resource)) => Ok(Some(Change::Created(resource))),
        (Ok(EventType::Updated), Some(resource)) => Ok(Some(Change::Updated(resource))),
        (Ok(EventType::Destroyed), Some(resource)) => Ok(Some(Change::Destroyed(resource))),
        (Ok(EventType::Bootstrapped), _) => Ok(Some(Change::Bootstrapped)),
        (Ok(EventType::Errored), _) => Err(TalosError::No {
            call: call.clone(),
            code: Code::Unknown,
            message: event.error.unwrap_or_default(),
        }),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> String {
        let spec = wire::Spec { yaml_spec: yaml.to_owned(), ..wire::Spec::default() };
        let resource = wire::Resource { spec: Some(spec), ..wire::Resource::default() };
        Resource::from(resource).config_text().expose().to_owned()
    }

    /// Talos 1.12.0 sends the config as one string. Talos 1.11 sends the documents of the config.
    #[test]
    fn configs_are_read_from_both_resource_forms() {
        let documents = "version: v1alpha1\nmachine: {}\n---\nkind: HostnameConfig\n";
        let string: String = documents.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(config(&format!("|\n{string}")), documents);
        assert_eq!(config(documents), documents);
        assert_eq!(config("version: v1alpha1\n"), "version: v1alpha1\n");
    }
}
