//! Image sources are checked before any change, and only if the plan creates VMs.

use talmox_engine::observe::{Purpose, Sources, observe};
use talmox_engine::web::{Web, WebSettings};
use talmox_plan::plan::show;
use talmox_plan::planning::{self, PlanOptions};
use talmox_talos_api::Reach;

use super::inventory::pair;
use super::rig::Rig;

impl Rig {
    /// Findings of a plan if the Image Factory cannot be reached.
    async fn findings_offline(&self, text: &str) -> String {
        let reach = Reach::new([("factory.talos.dev", "127.0.0.1:1")]);
        let web = Web::new(WebSettings { reach, authorities: vec![] }).unwrap();
        let (desired, client) = (self.desired(text), self.client(self.token));
        let (talos, kube) = (self.access(), self.kube_of(&desired));
        let sources = Sources {
            pve: &client,
            talos: &talos,
            kube: &kube,
            web: &web,
            purpose: Purpose::Change,
        };
        let observed = observe(&desired, &sources).await.unwrap();
        show::findings(&planning::plan(
            &desired,
            &observed,
            PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false },
        ))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_factory_is_queried_only_if_something_must_be_created() {
    let rig = Rig::start();
    let findings = rig.findings_offline(&pair()).await;
    let words = "error[source-unreachable]: https://factory.talos.dev: the Image Factory cannot be queried: cannot connect";
    assert!(findings.starts_with(words), "{findings}");
    assert_eq!(findings.matches("error[").count(), 1, "{findings}");
    rig.up(&pair()).await.assert_done();
    assert_eq!(rig.findings_offline(&pair()).await, "", "nobody is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_extensions_must_be_known_to_the_factory() {
    let rig = Rig::start();
    let findings = show::findings(&rig.plan(&pair().replace("v1.11.2", "v1.11.99")).await);
    assert!(findings.contains("the Image Factory has no Talos v1.11.99"), "{findings}");
    assert!(findings.contains("hint: correct `talos_version`; available: v1.11."), "{findings}");
    let more = "image: {extensions: [siderolabs/qemu-agent]}\n";
    let findings = show::findings(&rig.plan(&format!("{more}{}", pair())).await);
    assert!(
        findings.contains("no extension siderolabs/qemu-agent for Talos v1.11.2"),
        "{findings}"
    );
    assert!(findings.contains("similar: siderolabs/qemu-guest-agent"), "{findings}");
}
