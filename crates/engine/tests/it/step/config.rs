use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_plan::plan::{Action, ApplyConfig, ConfigBy};
use talmox_talos_api::Expected;
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::generate_with;
use talmox_talos_config::time::UnixTime;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::rig::{Rig, apply_config};

const ADDRESS: &str = "10.0.0.11";

#[tokio::test]
async fn a_machine_in_maintenance_mode_gets_its_config_once() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let step = Action::ApplyConfig(apply_config(ADDRESS));
    let report = rig.run(step.clone()).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(node.facts().applied, ["the config"]);
    let again = rig.run(step).await;
    assert!(matches!(again.result, StepResult::Already), "{:?}", again.result);
    assert_eq!(node.facts().applied.len(), 1);
    assert_eq!(again.notes, Vec::<String>::new());
}

#[tokio::test]
async fn a_foreign_machine_gets_no_config() {
    let mut rig = Rig::new();
    let other = "00000000-0000-4000-8000-000000000001";
    let node = rig.node(ADDRESS, |facts| facts.uuid = other.to_owned()).await;
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert_eq!(
        report.failure(),
        format!(
            "the machine at 10.0.0.11 is not the VM 300 of cp-11: its SMBIOS UUID is {other}, \
             not 4c4c4544-0042-3510-8051-b4c04f333732"
        )
    );
    assert!(node.facts().applied.is_empty());
}

#[tokio::test]
async fn every_identifier_of_a_machine_must_match() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let desired = apply_config(ADDRESS).node.expected;
    let other_mac = Expected { macs: vec!["02:00:00:00:00:99".to_owned()], ..desired.clone() };
    let other_instance = Expected { instance_id: Some("xyz".to_owned()), ..desired };
    for (expected, words) in [
        (other_mac, "it has no network card 02:00:00:00:00:99"),
        (other_instance, "its instance id is abc, not xyz"),
    ] {
        let mut step = apply_config(ADDRESS);
        step.node.expected = expected;
        let report = rig.run(Action::ApplyConfig(step)).await;
        let failure = report.failure();
        assert!(failure.ends_with(words), "{failure}");
        assert!(report.hint().starts_with("nothing was sent to it"), "{}", report.hint());
        assert!(node.facts().applied.is_empty());
    }
}

#[tokio::test]
async fn another_machine_of_the_cluster_gets_no_config() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| {
        facts.is_configured = true;
        facts.mac = "02:00:00:00:00:99".to_owned();
    })
    .await;
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert!(report.failure().ends_with("it has no network card 02:00:00:00:00:11"));
}

#[tokio::test]
async fn a_node_of_another_cluster_is_not_changed() {
    let mut rig = Rig::new();
    let mut randomness = SystemRandomness::new();
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    let made = UnixTime::from_seconds(1_700_000_000);
    let other = generate_with(&key, made, &mut randomness).unwrap();
    rig.node_of(ADDRESS, &other, |facts| facts.is_configured = true).await;
    let report = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert!(report.failure().ends_with("it is a node of another cluster"), "{}", report.failure());
}

#[tokio::test]
async fn a_rejected_config_is_reported_with_the_reason() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |_| {}).await;
    let step = ApplyConfig { config: SecretText::new("bad").into(), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    let failure = report.failure();
    assert!(failure.starts_with("cp-11 rejected its config: "), "{failure}");
    assert!(failure.contains("configuration validation failed: it is bad"), "{failure}");
}

#[tokio::test]
async fn an_address_that_is_not_in_the_config_is_an_error() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| facts.addresses.push("10.0.0.77/24".to_owned())).await;
    let step = ApplyConfig { deadline: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert_eq!(
        report.failure(),
        "cp-11 does not have the network of its config in time: \
         eth0 has the address 10.0.0.77, which its config does not give it"
    );
    assert!(report.hint().contains("destroy its VM"), "{}", report.hint());
}

#[tokio::test]
async fn a_shared_address_is_not_counted_but_the_kubelet_must_not_use_it() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |facts| facts.addresses.push("10.0.0.20/32".to_owned())).await;
    let step = ApplyConfig { deadline: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step.clone())).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    node.facts().node_ip = "10.0.0.20".to_owned();
    let report = rig.run(Action::ApplyConfig(step.clone())).await;
    assert!(report.failure().contains("its kubelet uses the address 10.0.0.20, which"));
    node.facts().node_ip = ADDRESS.to_owned();
    node.facts().hostname = "talos-xyz".to_owned();
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert!(report.failure().ends_with("its hostname is talos-xyz, not cp-11"));
}

#[tokio::test]
async fn a_volume_is_waited_for_and_nothing_is_sent() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let (by, deadline) = (ConfigBy::Volume, Duration::from_mins(1));
    let step = ApplyConfig { by, deadline, ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert_eq!(
        report.failure(),
        "cp-11 does not come up: it has not read its config from the volume"
    );
    let StepResult::Failed(error) = &report.result else { panic!("{:?}", report.result) };
    let hint = error.hint.as_deref().unwrap();
    assert!(
        hint.starts_with("talmox sends no config to it: any machine could answer like this"),
        "{hint}"
    );
    assert!(node.facts().applied.is_empty());
}

#[tokio::test]
async fn another_version_is_noted() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |_| {}).await;
    let step = ApplyConfig { talos_version: "v1.12.0".to_owned(), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(report.notes, ["cp-11 runs Talos v1.11.2, and its config is for v1.12.0"]);
}

#[tokio::test]
async fn a_clone_of_another_minor_version_gets_no_config() {
    for (hides_version, desired, runs) in [
        (false, "v1.12.0", Some("v1.11.2")),
        (true, "v1.13.6", Some("older than v1.13")),
        // These machines get the config: one with another patch version, and one that does not report its version and may
        // have the right one.
        (false, "v1.11.9", None),
        (true, "v1.12.0", None),
    ] {
        let mut rig = Rig::new();
        let node = rig.node(ADDRESS, |facts| facts.hides_version = hides_version).await;
        let template = Some("golden".to_owned());
        let talos_version = desired.to_owned();
        let step = ApplyConfig { talos_version, template, ..apply_config(ADDRESS) };
        let report = rig.run(Action::ApplyConfig(step)).await;
        let Some(runs) = runs else {
            assert!(matches!(report.result, StepResult::Done), "{desired}: {:?}", report.result);
            continue;
        };
        assert_eq!(
            report.failure(),
            format!(
                "cp-11 runs Talos {runs}, and its config is for {desired}: nothing was sent to it"
            )
        );
        assert!(
            report.hint().starts_with("the template golden has another version of Talos"),
            "{}",
            report.hint()
        );
        assert!(node.facts().applied.is_empty());
    }
}

#[tokio::test]
async fn a_port_that_stays_closed_is_reported() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(ADDRESS);
    let (resets, deadline) = (0, Duration::from_mins(1));
    let step = ApplyConfig { resets, deadline, ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    assert!(
        report.failure().starts_with("cp-11 does not come up: nothing answers: cannot connect")
    );
    assert!(report.hint().contains("`proxmox.endpoint` is down"), "{}", report.hint());
    assert_eq!(report.waits.len(), 1, "{:?}", report.waits);
}

#[tokio::test]
async fn another_machine_at_the_address_causes_no_reset() {
    let mut rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    rig.lead(ADDRESS, 50000, listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = vec![];
        while let Ok((mut socket, _)) = listener.accept().await {
            socket.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
            open.push(socket);
        }
    });
    let step = ApplyConfig { deadline: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    let failure = report.failure();
    let words = "cp-11 does not come up: a server that is not a Talos node: ";
    assert!(failure.starts_with(words), "{failure}");
    assert!(
        report.hint().starts_with("turn off the machine that uses the address"),
        "{}",
        report.hint()
    );
    assert_eq!(report.notes, Vec::<String>::new());
}

#[tokio::test]
async fn without_an_answer_of_proxmox_nothing_is_reset() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(ADDRESS);
    let step = ApplyConfig { boot: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    let (failure, silent) = (report.failure(), "(Proxmox does not answer either)");
    assert!(failure.starts_with("cp-11 does not come up: nothing answers: "), "{failure}");
    assert!(failure.ends_with(silent), "{failure}");
    assert!(report.hint().contains("`proxmox.endpoint` is down"), "{}", report.hint());
    assert!(report.waits.iter().any(|reason| reason.ends_with(silent)), "{:?}", report.waits);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[tokio::test]
async fn a_config_without_a_confirmation_is_reported() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| facts.never_answers_apply = true).await;
    let step = ApplyConfig { deadline: Duration::from_mins(4), ..apply_config(ADDRESS) };
    let report = rig.run(Action::ApplyConfig(step)).await;
    let why = "it still has no config: ApplyConfiguration on 10.0.0.11:50000 was not answered in time, \
               and may have been executed";
    assert_eq!(
        report.failure(),
        format!("cp-11 does not come back with its config in time: {why}")
    );
    assert!(report.hint().contains("`mtu:`"), "{}", report.hint());
    assert_eq!(report.waits[0], "waiting for the node to apply its config");
}
