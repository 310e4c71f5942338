//! Tests of `talosctl containers`.

use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use super::raw_client::Raw;
use super::test_bed::TestBed;

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
}

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

#[derive(Default)]
struct Plain;

impl Codec for Plain {
    type Encode = ContainersRequest;
    type Decode = ContainersResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = ContainersRequest;
    type Error = Status;

    fn encode(
        &mut self,
        item: ContainersRequest,
        buffer: &mut EncodeBuf<'_>,
    ) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Plain {
    type Item = ContainersResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<ContainersResponse>, Status> {
        let read = ContainersResponse::decode(buffer);
        read.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

const CONTAINERD: i32 = 0;
const CRI: i32 = 1;

async fn containers(raw: &Raw, space: &str, driver: i32) -> Result<Vec<ContainerInfo>, Status> {
    let origin = "https://node".parse().unwrap();
    let mut client = tonic::client::Grpc::with_origin(raw.clone(), origin);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/machine.MachineService/Containers");
    let request = ContainersRequest { namespace: space.to_owned(), driver };
    let answer = client.unary(Request::new(request), path, Plain).await?;
    Ok(answer.into_inner().messages.remove(0).containers)
}

/// The containers of Talos services are listed, and those of pods with both drivers.
#[test]
fn containers_of_the_system_and_of_pods_are_listed() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        bed.bootstrap(11).await;
        let raw = bed.raw(11).await;
        let system = containers(&raw, "system", CONTAINERD).await.unwrap();
        let ids: Vec<&str> = system.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["apid", "ext-qemu-guest-agent", "trustd"]);
        let is_running = |one: &ContainerInfo| one.status == "RUNNING" && one.pid > 1;
        assert!(system.iter().all(|one| is_running(one) && one.image.is_empty()), "{system:?}");

        let pod = "kube-system/kube-apiserver-node-11";
        let server = format!("{pod}:kube-apiserver");
        let pods = super::test_bed::until("a static pod", || async {
            let pods = containers(&raw, "k8s.io", CONTAINERD).await.unwrap();
            pods.iter().any(|one| one.id == server).then_some(pods)
        })
        .await;
        assert!(pods.iter().all(is_running), "{pods:?}");
        let found = pods.iter().find(|one| one.id == server).unwrap();
        assert_eq!((found.namespace.as_str(), found.pod_id.as_str()), ("k8s.io", pod));
        assert!(found.image.starts_with("registry.k8s.io/kube-apiserver:v"), "{found:?}");
        assert!(pods.iter().any(|one| one.id == pod), "what holds the pod together");
        let pods = containers(&raw, "k8s.io", CRI).await.unwrap();
        let found = pods.iter().find(|one| one.id.starts_with(&server)).unwrap();
        // The name is followed by a colon and twelve digits of the container id.
        assert_eq!(found.id.len(), server.len() + 1 + 12, "{found:?}");
        assert_eq!(found.status, "CONTAINER_RUNNING");
        let sandbox = pods.iter().find(|one| one.id == pod).unwrap();
        assert_eq!(sandbox.status, "SANDBOX_READY");

        let wrong = containers(&raw, "system", CRI).await.unwrap_err();
        let text = "CRI inspector is supported only for K8s namespace";
        assert_eq!((wrong.code(), wrong.message()), (Code::Unknown, text));
        let none = containers(&raw, "", CONTAINERD).await.unwrap_err();
        assert_eq!(
            (none.code(), none.message()),
            (Code::InvalidArgument, "namespace can't be empty")
        );
        assert!(containers(&raw, "other", CONTAINERD).await.unwrap().is_empty());
    });
    bed.lab.stop();
}
