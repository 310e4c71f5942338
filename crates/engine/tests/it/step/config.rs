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
async fn a_waiting_machine_gets_its_config_once() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let step = Action::ApplyConfig(apply_config(ADDRESS));
    let told = rig.run(step.clone()).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    assert_eq!(node.facts().applied, ["the config"]);
    let again = rig.run(step).await;
    assert!(matches!(again.result, StepResult::Already), "{:?}", again.result);
    assert_eq!(node.facts().applied.len(), 1);
    assert_eq!(again.notes, Vec::<String>::new());
}

#[tokio::test]
async fn a_stranger_gets_nothing() {
    let mut rig = Rig::new();
    let other = "00000000-0000-4000-8000-000000000001";
    let node = rig.node(ADDRESS, |facts| facts.uuid = other.to_owned()).await;
    let told = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert_eq!(
        told.failure(),
        format!(
            "the machine at 10.0.0.11 is not the VM 300 of cp-11: its SMBIOS UUID is {other}, \
             not 4c4c4544-0042-3510-8051-b4c04f333732"
        )
    );
    assert!(node.facts().applied.is_empty());
}

#[tokio::test]
async fn every_mark_of_a_machine_must_fit() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let wanted = apply_config(ADDRESS).node.expected;
    let other_mac = Expected { macs: vec!["02:00:00:00:00:99".to_owned()], ..wanted.clone() };
    let other_instance = Expected { instance_id: Some("xyz".to_owned()), ..wanted };
    for (expected, words) in [
        (other_mac, "it has no network card 02:00:00:00:00:99"),
        (other_instance, "its instance id is abc, not xyz"),
    ] {
        let mut step = apply_config(ADDRESS);
        step.node.expected = expected;
        let told = rig.run(Action::ApplyConfig(step)).await;
        let failure = told.failure();
        assert!(failure.ends_with(words), "{failure}");
        assert!(told.hint().starts_with("nothing was sent to it"), "{}", told.hint());
        assert!(node.facts().applied.is_empty());
    }
}

#[tokio::test]
async fn another_machine_of_the_cluster_is_a_stranger_too() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| {
        facts.is_configured = true;
        facts.mac = "02:00:00:00:00:99".to_owned();
    })
    .await;
    let told = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert!(told.failure().ends_with("it has no network card 02:00:00:00:00:11"));
}

#[tokio::test]
async fn a_node_of_another_cluster_is_left_alone() {
    let mut rig = Rig::new();
    let mut randomness = SystemRandomness::new();
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    let made = UnixTime::from_seconds(1_700_000_000);
    let other = generate_with(&key, made, &mut randomness).unwrap();
    rig.node_of(ADDRESS, &other, |facts| facts.is_configured = true).await;
    let told = rig.run(Action::ApplyConfig(apply_config(ADDRESS))).await;
    assert!(told.failure().ends_with("it is a node of another cluster"), "{}", told.failure());
}

#[tokio::test]
async fn a_config_that_is_not_taken_is_told_with_the_reason() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |_| {}).await;
    let step = ApplyConfig { config: SecretText::new("bad").into(), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    let failure = told.failure();
    assert!(failure.starts_with("cp-11 rejected its config: "), "{failure}");
    assert!(failure.contains("configuration validation failed: it is bad"), "{failure}");
}

#[tokio::test]
async fn two_addresses_are_one_too_many() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| facts.addresses.push("10.0.0.77/24".to_owned())).await;
    let step = ApplyConfig { deadline: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    assert_eq!(
        told.failure(),
        "cp-11 does not have the network of its config in time: \
         eth0 has the address 10.0.0.77, which its config does not give it"
    );
    assert!(told.hint().contains("destroy its VM"), "{}", told.hint());
}

#[tokio::test]
async fn a_shared_address_is_not_counted_but_the_kubelet_must_not_use_it() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |facts| facts.addresses.push("10.0.0.20/32".to_owned())).await;
    let step = ApplyConfig { deadline: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step.clone())).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    node.facts().node_ip = "10.0.0.20".to_owned();
    let told = rig.run(Action::ApplyConfig(step.clone())).await;
    assert!(told.failure().contains("its kubelet uses the address 10.0.0.20, which"));
    node.facts().node_ip = ADDRESS.to_owned();
    node.facts().hostname = "talos-xyz".to_owned();
    let told = rig.run(Action::ApplyConfig(step)).await;
    assert!(told.failure().ends_with("its hostname is talos-xyz, not cp-11"));
}

#[tokio::test]
async fn a_volume_is_waited_for_and_nothing_is_sent() {
    let mut rig = Rig::new();
    let node = rig.node(ADDRESS, |_| {}).await;
    let (by, deadline) = (ConfigBy::Volume, Duration::from_mins(1));
    let step = ApplyConfig { by, deadline, ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    assert_eq!(
        told.failure(),
        "cp-11 does not come up: it has not read its config from the volume"
    );
    let StepResult::Failed(error) = &told.result else { panic!("{:?}", told.result) };
    let hint = error.hint.as_deref().unwrap();
    assert!(
        hint.starts_with("talmox sends no config to it: any machine could answer like this"),
        "{hint}"
    );
    assert!(node.facts().applied.is_empty());
}

#[tokio::test]
async fn another_version_is_worth_a_word() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |_| {}).await;
    let step = ApplyConfig { talos_version: "v1.12.0".to_owned(), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    assert!(matches!(told.result, StepResult::Done), "{:?}", told.result);
    assert_eq!(told.notes, ["cp-11 runs Talos v1.11.2, and its config is for v1.12.0"]);
}

#[tokio::test]
async fn a_clone_of_another_minor_version_gets_nothing() {
    for (hides_version, wanted, runs) in [
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
        let talos_version = wanted.to_owned();
        let step = ApplyConfig { talos_version, template, ..apply_config(ADDRESS) };
        let told = rig.run(Action::ApplyConfig(step)).await;
        let Some(runs) = runs else {
            assert!(matches!(told.result, StepResult::Done), "{wanted}: {:?}", told.result);
            continue;
        };
        assert_eq!(
            told.failure(),
            format!(
                "cp-11 runs Talos {runs}, and its config is for {wanted}: nothing was sent to it"
            )
        );
        assert!(
            told.hint().starts_with("the template golden has another version of Talos"),
            "{}",
            told.hint()
        );
        assert!(node.facts().applied.is_empty());
    }
}

#[tokio::test]
async fn a_port_that_stays_closed_is_told() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(ADDRESS);
    let (resets, deadline) = (0, Duration::from_mins(1));
    let step = ApplyConfig { resets, deadline, ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    assert!(told.failure().starts_with("cp-11 does not come up: nothing answers: cannot connect"));
    assert!(told.hint().contains("`proxmox.endpoint` is down"), "{}", told.hint());
    assert_eq!(told.waits.len(), 1, "{:?}", told.waits);
}

#[tokio::test]
async fn another_machine_at_the_address_is_no_reason_for_a_reset() {
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
    let told = rig.run(Action::ApplyConfig(step)).await;
    let failure = told.failure();
    let words = "cp-11 does not come up: a server that is not a Talos node: ";
    assert!(failure.starts_with(words), "{failure}");
    assert!(
        told.hint().starts_with("turn off the machine that uses the address"),
        "{}",
        told.hint()
    );
    assert_eq!(told.notes, Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_reset_while_proxmox_does_not_answer_and_that_is_told() {
    let mut rig = Rig::new();
    let _closed = rig.lead_nowhere(ADDRESS);
    let step = ApplyConfig { boot: Duration::from_mins(1), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    let (failure, silent) = (told.failure(), "(Proxmox does not answer either)");
    assert!(failure.starts_with("cp-11 does not come up: nothing answers: "), "{failure}");
    assert!(failure.ends_with(silent), "{failure}");
    assert!(told.hint().contains("`proxmox.endpoint` is down"), "{}", told.hint());
    assert!(told.waits.iter().any(|reason| reason.ends_with(silent)), "{:?}", told.waits);
    assert_eq!(told.notes, Vec::<String>::new());
}

#[tokio::test]
async fn a_config_whose_receipt_is_never_confirmed_is_told() {
    let mut rig = Rig::new();
    rig.node(ADDRESS, |facts| facts.is_deaf = true).await;
    let step = ApplyConfig { deadline: Duration::from_mins(4), ..apply_config(ADDRESS) };
    let told = rig.run(Action::ApplyConfig(step)).await;
    let why = "it still has no config: ApplyConfiguration on 10.0.0.11:50000 was not answered in time, \
               and may have been executed";
    assert_eq!(told.failure(), format!("cp-11 does not come back with its config in time: {why}"));
    assert!(told.hint().contains("`mtu:`"), "{}", told.hint());
    assert_eq!(told.waits[0], "waiting for the node to apply its config");
}
