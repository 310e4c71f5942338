//! Control planes pass calls on, and put answers together; workers do not.

use talmox_talos_api::proto::cosi::resource::GetRequest;
use talmox_talos_api::proto::cosi::resource::state_client::StateClient;
use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use tonic::{Code, Request};

use super::raw::Raw;
use super::world::World;

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
fn who_passes_calls_on_and_how() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.start(12);
    world.lab.wait(async {
        world.bootstrap(11).await;
        world.configure(12, false).await;
        let (first, second) = (world.raw(11).await, world.raw(12).await);

        // One node answers as if it had been asked itself.
        let answer = machine(&first).hostname(to((), "node", &["10.0.0.12"])).await.unwrap();
        let message = &answer.get_ref().messages[0];
        assert_eq!((message.hostname.as_str(), &message.metadata), ("node-12", &None));

        // Several are put together, the one that is not there among them.
        let nodes = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
        let answer = machine(&first).hostname(to((), "nodes", &nodes)).await.unwrap();
        let told: Vec<(String, String, bool)> = answer
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
        assert_eq!(told, wanted);
        let gone = machine(&first).hostname(to((), "node", &["10.0.0.13"])).await.unwrap_err();
        assert_eq!(gone.code(), Code::Unavailable);
        let both = machine(&first).hostname(to((), "node", &nodes)).await.unwrap_err();
        assert_eq!(both.code(), Code::InvalidArgument);

        // Resources are asked for one by one.
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

        // Workers answer for themselves only.
        let own = machine(&second).hostname(to((), "nodes", &["10.0.0.12"])).await.unwrap();
        assert_eq!(own.into_inner().messages[0].hostname, "node-12");
        let refused = machine(&second).hostname(to((), "node", &["10.0.0.11"])).await.unwrap_err();
        let told = (refused.code(), refused.message());
        assert_eq!(told, (Code::PermissionDenied, "no request forwarding"));
    });
    world.lab.stop();
}
