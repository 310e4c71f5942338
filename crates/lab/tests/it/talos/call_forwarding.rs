//! Tests of call forwarding. Control-plane nodes forward calls and merge the answers. Workers do not.

use talmox_talos_api::proto::cosi::resource::GetRequest;
use talmox_talos_api::proto::cosi::resource::state_client::StateClient;
use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use tonic::{Code, Request};

use super::raw_client::Raw;
use super::test_bed::TestBed;

pub(super) fn to<T>(message: T, key: &'static str, nodes: &[&str]) -> Request<T> {
    let mut request = Request::new(message);
    for node in nodes {
        request.metadata_mut().append(key, node.parse().unwrap());
    }
    request
}

pub(super) fn machine(raw: &Raw) -> MachineServiceClient<Raw> {
    MachineServiceClient::with_origin(raw.clone(), "https://node".parse().unwrap())
}

#[test]
fn control_planes_forward_calls_and_workers_do_not() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.start(12);
    bed.lab.wait(async {
        bed.bootstrap(11).await;
        bed.configure(12, false).await;
        let (first, second) = (bed.raw(11).await, bed.raw(12).await);

        // If one node is named, its answer looks like a direct answer.
        let answer = machine(&first).hostname(to((), "node", &["10.0.0.12"])).await.unwrap();
        let message = &answer.get_ref().messages[0];
        assert_eq!((message.hostname.as_str(), &message.metadata), ("node-12", &None));

        // If several nodes are named, their answers are merged. The error of an unreachable node is part of the merged answer.
        let nodes = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
        let answer = machine(&first).hostname(to((), "nodes", &nodes)).await.unwrap();
        let received: Vec<(String, String, bool)> = answer
            .into_inner()
            .messages
            .into_iter()
            .map(|message| {
                let metadata = message.metadata.unwrap();
                (metadata.hostname, message.hostname, !metadata.error.is_empty())
            })
            .collect();
        let text = |a: &str, b: &str, failed| (a.to_owned(), b.to_owned(), failed);
        let wanted = [
            text("10.0.0.11", "node-11", false),
            text("10.0.0.12", "node-12", false),
            text("10.0.0.13", "", true),
        ];
        assert_eq!(received, wanted);
        let gone = machine(&first).hostname(to((), "node", &["10.0.0.13"])).await.unwrap_err();
        assert_eq!(gone.code(), Code::Unavailable);
        let both = machine(&first).hostname(to((), "node", &nodes)).await.unwrap_err();
        assert_eq!(both.code(), Code::InvalidArgument);

        // A call for resources may name only one node.
        let mut state = StateClient::with_origin(first, "https://node".parse().unwrap());
        let request = GetRequest {
            namespace: "k8s".to_owned(),
            r#type: "Nodenames.kubernetes.talos.dev".to_owned(),
            id: "nodename".to_owned(),
            options: None,
        };
        let many = state.get(to(request.clone(), "nodes", &nodes)).await.unwrap_err();
        assert_eq!(many.code(), Code::InvalidArgument);
        let one = state.get(to(request, "node", &["10.0.0.12"])).await.unwrap();
        let yaml = one.into_inner().resource.unwrap().spec.unwrap().yaml_spec;
        assert!(yaml.starts_with("nodename: node-12\n"), "{yaml}");

        // A worker answers only for itself.
        let own = machine(&second).hostname(to((), "nodes", &["10.0.0.12"])).await.unwrap();
        assert_eq!(own.into_inner().messages[0].hostname, "node-12");
        let rejected = machine(&second).hostname(to((), "node", &["10.0.0.11"])).await.unwrap_err();
        let received = (rejected.code(), rejected.message());
        assert_eq!(received, (Code::PermissionDenied, "no request forwarding"));
    });
    bed.lab.stop();
}
