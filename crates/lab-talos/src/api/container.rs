//! `MachineService.Containers`: containers in the container runtimes of a node.
//!
//! Only `talosctl containers` makes this call. The generated client of talmox does not contain it, so this module declares the
//! messages and encodes the answer.

use std::sync::Arc;

use hyper::Request;
use hyper::Response;
use prost::Message;
use serde_json::Value;
use talmox_lab_kube::object::{list, name, namespace, text, uid};
use talmox_talos_api::proto::common::ContainerDriver;
use talmox_talos_api::server::Status;
use tonic::body::Body;

use super::{Session, fan_out, frame};
use crate::service::{self, ServiceState};
use crate::talos_state::{Node, TalosState};

pub(super) const PATH: &str = "/machine.MachineService/Containers";

/// containerd namespaces: `system` contains Talos services, `k8s.io` contains pods.
const SYSTEM: &str = "system";
const KUBERNETES: &str = "k8s.io";
/// Number of characters of a pod container's id that are shown.
const SHORT_ID_LENGTH: usize = 12;
/// Image of the pause container, which every pod has.
const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";

#[derive(Clone, PartialEq, Message)]
struct ContainersRequest {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(int32, tag = "2")]
    driver: i32,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerInfo {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    image: String,
    #[prost(uint32, tag = "4")]
    pid: u32,
    #[prost(string, tag = "5")]
    status: String,
    #[prost(string, tag = "6")]
    pod_id: String,
    #[prost(string, tag = "7")]
    name: String,
    #[prost(string, tag = "9")]
    internal_id: String,
    #[prost(string, tag = "10")]
    uid: String,
}

/// Containers of one node. Field 1 of the message contains metadata, which only forwarded answers have.
#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "2")]
    containers: Vec<ContainerInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainersResponse {
    #[prost(message, repeated, tag = "1")]
    messages: Vec<Containers>,
}

pub(super) async fn answer(session: &Arc<Session>, request: Request<Body>) -> Response<Body> {
    match containers(session, request).await {
        Ok(messages) => fan_out::answer(&ContainersResponse { messages }.encode_to_vec()),
        Err(status) => status.into_http(),
    }
}

async fn containers(session: &Session, request: Request<Body>) -> Result<Vec<Containers>, Status> {
    let mut body = frame::collect(request.into_body()).await?.to_vec();
    let message = frame::take_message(&mut body).unwrap_or_default();
    let asked = ContainersRequest::decode(&message[..])
        .map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")))?;
    if asked.namespace.is_empty() {
        return Err(Status::invalid_argument("namespace can't be empty"));
    }
    let containers = match ContainerDriver::try_from(asked.driver) {
        Ok(ContainerDriver::Cri) if asked.namespace != KUBERNETES => {
            return Err(Status::unknown("CRI inspector is supported only for K8s namespace"));
        }
        Ok(ContainerDriver::Cri) => session.look(|talos, node| pods(talos, node, true))?,
        Ok(ContainerDriver::Containerd) => {
            session.look(|talos, node| match asked.namespace.as_str() {
                SYSTEM => services(node),
                KUBERNETES => pods(talos, node, false),
                _ => vec![],
            })?
        }
        Err(_) => {
            let text = format!("unsupported driver \"{}\"", asked.driver);
            return Err(Status::invalid_argument(text));
        }
    };
    Ok(vec![Containers { containers }])
}

/// Talos services that run as containers in the system containerd. They start from the root file system, so they have no image.
fn services(node: &Node) -> Vec<ContainerInfo> {
    let running = node.services.iter().filter(|(id, known)| {
        let is_container = service::runs_in_system_container(id);
        is_container && known.state == ServiceState::Running
    });
    let info = |id: &String| ContainerInfo {
        namespace: SYSTEM.to_owned(),
        id: id.clone(),
        internal_id: id.clone(),
        name: id.clone(),
        pod_id: id.clone(),
        pid: service::pid(id, node.vmid),
        status: "RUNNING".to_owned(),
        ..ContainerInfo::default()
    };
    running.map(|(id, _)| info(id)).collect()
}

/// Containers of the pods of this node. The first container of each pod is its pause container. `is_cri` selects the format of
/// the CRI driver instead of the format of the containerd driver.
fn pods(talos: &TalosState, node: &Node, is_cri: bool) -> Vec<ContainerInfo> {
    let Some(store) = talos.kubernetes_of(node) else { return vec![] };
    let all = store.list("pods");
    let own = all.iter().filter(|pod| {
        text(pod, "/spec/nodeName") == node.hostname() && text(pod, "/status/phase") == "Running"
    });
    own.flat_map(|pod| pod_containers(pod, is_cri)).collect()
}

fn pod_containers(pod: &Value, is_cri: bool) -> Vec<ContainerInfo> {
    let pod_id = format!("{}/{}", namespace(pod), name(pod));
    // A sandbox id has the same form as a container id: 64 hexadecimal digits.
    let sandbox: String = uid(pod).replace('-', "").repeat(2);
    let mut found = vec![ContainerInfo {
        namespace: KUBERNETES.to_owned(),
        id: pod_id.clone(),
        image: PAUSE_IMAGE.to_owned(),
        pid: pid(&sandbox),
        status: if is_cri { "SANDBOX_READY" } else { "RUNNING" }.to_owned(),
        pod_id: pod_id.clone(),
        name: if is_cri { pod_id.clone() } else { sandbox.clone() },
        internal_id: sandbox,
        uid: if is_cri { uid(pod).to_owned() } else { String::new() },
    }];
    for status in list(pod, "/status/containerStatuses") {
        let internal_id = text(status, "/containerID").trim_start_matches("containerd://");
        if status.pointer("/state/running").is_none() || internal_id.is_empty() {
            continue;
        }
        let name = text(status, "/name");
        let short = internal_id.get(..SHORT_ID_LENGTH).unwrap_or(internal_id);
        found.push(ContainerInfo {
            namespace: KUBERNETES.to_owned(),
            id: if is_cri {
                format!("{pod_id}:{name}:{short}")
            } else {
                format!("{pod_id}:{name}")
            },
            image: text(status, "/image").to_owned(),
            pid: pid(internal_id),
            status: if is_cri { "CONTAINER_RUNNING" } else { "RUNNING" }.to_owned(),
            pod_id: pod_id.clone(),
            name: name.to_owned(),
            internal_id: internal_id.to_owned(),
            uid: String::new(),
        });
    }
    found
}

/// Process id that is derived from the container id, so that it stays the same for the life of the container.
fn pid(id: &str) -> u32 {
    3000 + id.bytes().fold(0_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 20_000)
}
