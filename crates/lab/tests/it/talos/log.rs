//! What services and containers have said.

use talmox_talos_api::client::LogSource;
use talmox_talos_api::{Client, TalosError};

use super::world::{World, until};

async fn text(client: &Client, source: &LogSource) -> Result<String, TalosError> {
    let bytes = client.logs(source, None, false).await?.all().await?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn containers_have_logs_and_what_is_not_there_has_none() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.start(21);
    world.lab.wait(async {
        let plane = world.bootstrap(11).await;
        let worker = world.configure(21, false).await;
        let container = |id: &str| LogSource::Container(id.to_owned());
        let server = container("kube-system/kube-apiserver-node-11:kube-apiserver");
        let said = until("a log", || async { text(&plane, &server).await.ok() }).await;
        assert!(said.contains(" stdout F ") && said.contains("kube-apiserver:v1.34.1"), "{said}");

        let refused = async |client: &Client, source: LogSource| {
            text(client, &source).await.unwrap_err().to_string()
        };
        // It runs on the other node.
        let elsewhere = refused(&worker, server.clone()).await;
        assert!(
            elsewhere.contains("kube-apiserver-node-11:kube-apiserver\" not found"),
            "{elsewhere}"
        );
        for (id, words) in [
            (
                "kube-system/kube-apiserver-node-11:nginx",
                "container \"kube-system/kube-apiserver-node-11:nginx\" not found",
            ),
            ("kube-system/kube-apiserver-node-11:kube-apiserver:zzzz", "not found"),
            ("kube-system/kube-apiserver-node-11", "no log available"),
            ("etcd", "container \"etcd\" not found"),
        ] {
            let problem = refused(&plane, container(id)).await;
            assert!(problem.contains(words), "{id}: {problem}");
        }
        let problem = refused(&plane, LogSource::Service("nginx".to_owned())).await;
        assert!(problem.contains("log \"nginx\" was not registered"), "{problem}");
        // The kubelet is a service, whoever asks for it as what.
        assert!(text(&plane, &container("kubelet")).await.unwrap().contains("Started"));
    });
    world.lab.stop();
}
