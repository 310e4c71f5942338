//! Tests of the logs of services and containers.

use talmox_talos_api::client::LogSource;
use talmox_talos_api::{Client, TalosError};

use super::test_bed::{TestBed, until};

async fn text(client: &Client, source: &LogSource) -> Result<String, TalosError> {
    let bytes = client.logs(source, None, false).await?.all().await?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn containers_have_logs_and_missing_ones_are_errors() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.start(21);
    bed.lab.wait(async {
        let plane = bed.bootstrap(11).await;
        let worker = bed.configure(21, false).await;
        let container = |id: &str| LogSource::Container(id.to_owned());
        let server = container("kube-system/kube-apiserver-node-11:kube-apiserver");
        let said = until("a log", || async { text(&plane, &server).await.ok() }).await;
        assert!(said.contains(" stdout F ") && said.contains("kube-apiserver:v1.34.1"), "{said}");

        let rejected = async |client: &Client, source: LogSource| {
            text(client, &source).await.unwrap_err().to_string()
        };
        // The container runs on the other node.
        let elsewhere = rejected(&worker, server.clone()).await;
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
            let problem = rejected(&plane, container(id)).await;
            assert!(problem.contains(words), "{id}: {problem}");
        }
        let problem = rejected(&plane, LogSource::Service("nginx".to_owned())).await;
        assert!(problem.contains("log \"nginx\" was not registered"), "{problem}");
        // The kubelet is a Talos service, even if its log is requested like that of a container.
        assert!(text(&plane, &container("kubelet")).await.unwrap().contains("Started"));
    });
    bed.lab.stop();
}
