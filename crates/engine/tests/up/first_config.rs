//! A machine config is sent only to the right machine, even if a machine between talmox and the node reads and forwards all
//! traffic.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use talmox_engine::step::{Cut, Moment};
use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_net::{ByLeaf, tls};
use talmox_plan::plan::{StepId, show};
use talmox_plan::planning::{RemovalConsent, Scope};
use talmox_pve::api::storage::{self, Content};
use talmox_talos_config::pki::{LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::inventory::{HEAD, PAIR, another_bundle, pair, with_short_timeouts};
use super::rig::{ADMIN, CompletedRun, Rig, once};

/// The inventory with the default boot way, `cidata`.
fn by_volume() -> String {
    format!("{HEAD}boot: cidata\n{PAIR}")
}

/// A machine between talmox and a node. It accepts every TLS connection with its own certificate, opens a second one to the
/// node, forwards all data, and records the data from talmox.
struct Relay {
    at: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    async fn start(node: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(vec![]));
        let (acceptor, connector) = (acceptor(), connector());
        let kept = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, connector) = (acceptor.clone(), connector.clone());
                let (node, kept) = (node.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    let behind = TcpStream::connect((node.as_str(), 50000)).await.ok()?;
                    let front = acceptor.accept(socket).await.ok()?;
                    let name = ServerName::try_from("10.0.0.11").unwrap();
                    let behind = connector.connect(name, behind).await.ok()?;
                    let (front_in, front_out) = tokio::io::split(front);
                    let (behind_in, behind_out) = tokio::io::split(behind);
                    let ignored = Arc::new(Mutex::new(vec![]));
                    tokio::join!(
                        pass(front_in, behind_out, kept),
                        pass(behind_in, front_out, ignored)
                    );
                    Some(())
                });
            }
        });
        Self { at, heard }
    }

    /// Number of secrets of the cluster in the recorded data.
    fn stolen(&self, bundle: &Bundle) -> usize {
        let heard = String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned();
        let yaml = bundle.to_yaml();
        let values = yaml.expose().lines().filter_map(|line| line.split_once(": "));
        let values =
            values.map(|(_, value)| value.trim_matches(['\'', '"'])).filter(|it| it.len() > 8);
        values.filter(|value| heard.contains(value)).count()
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    kept: Arc<Mutex<Vec<u8>>>,
) {
    let mut piece = vec![0; 1 << 14];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        kept.lock().unwrap().extend_from_slice(&piece[..length]);
        if to.write_all(&piece[..length]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}

fn acceptor() -> TlsAcceptor {
    let request = LeafRequest {
        subject: Name { common_name: Some("talos".to_owned()), organizations: vec![] },
        alt_names: vec![],
        usage: Usage::Server,
        key_encipherment: true,
        not_before: UnixTime::from_seconds(1_750_000_000),
        lifetime: Duration::from_hours(24),
    };
    let authority = another_bundle().certs.k8s.authority().unwrap();
    let (certificate, key) = authority.issue(&request, &mut SystemRandomness::new()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes()).unwrap();
    let mut config = tls::server()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate.as_der().to_vec())], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn connector() -> TlsConnector {
    let mut config = tls::client()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(ByLeaf::anyone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Runs the plan with a relay in front of the first control plane. The relay starts after the plan was made.
async fn up_through_a_relay(rig: &mut Rig, text: &str) -> (CompletedRun, Relay) {
    let plan = rig.plan(text).await;
    assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
    let relay = Relay::start(rig.lab.ready().reach["10.0.0.11"].clone()).await;
    rig.detours = vec![("10.0.0.11:50000".to_owned(), relay.at.to_string())];
    (rig.carry_out(plan, text, None).await, relay)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_between_talmox_and_a_node_cannot_read_a_config_on_a_volume() {
    let mut rig = Rig::start();
    let (ran, relay) = up_through_a_relay(&mut rig, &with_short_timeouts(&by_volume())).await;
    assert!(!ran.outcome.is_done(), "the relay proves nothing");
    assert_eq!(relay.stolen(&rig.bundle), 0);
    // Without the relay, the same command resumes.
    rig.detours.clear();
    rig.up(&by_volume()).await.assert_done();
    rig.lab_state(&by_volume()).await.assert_complete(&["cp-1"], &["wk-1"]);
}

/// The relay can steal secrets if the boot way allows it, and the plan warns of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_between_talmox_and_a_node_can_read_a_config_sent_in_maintenance_mode() {
    let mut rig = Rig::start();
    let (ran, relay) = up_through_a_relay(&mut rig, &with_short_timeouts(&pair())).await;
    assert!(relay.stolen(&rig.bundle) >= 5, "{}\n{}", relay.stolen(&rig.bundle), ran.failures());
    let warned =
        ran.plan.findings.iter().any(|finding| finding.message.contains("maintenance mode"));
    assert!(warned, "{}", show::findings(&ran.plan));
}

/// The impostor answers before the node does, and looks like the node without a config.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_in_maintenance_mode_gets_no_config_that_is_on_a_volume() {
    let rig = Rig::start();
    let script = "faults:\n  - {method: POST, path: '/nodes/*/qemu/303/status/start', \
                  impostor: {node: 10.0.0.21, as: maintenance}}\n";
    for fault in Fault::parse("faults.yaml", script).unwrap() {
        rig.lab.faults().add(fault);
    }
    let text = rig.up(&with_short_timeouts(&by_volume())).await.failures();
    assert!(text.contains("nothing was sent to it"), "{text}");
    assert!(text.contains("wk-1") && !text.contains("cp-1"), "{text}");
}

/// `boot:` concerns only the first boot. For clusters of earlier releases, which had another default, there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_created_by_cloudinit_is_not_changed() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    let before = rig.vms().await;
    let plan = rig.plan(&by_volume()).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
    rig.up(&by_volume()).await.assert_done();
    assert_eq!(rig.vms().await, before);
    // A new node gets its config on a volume.
    let more = by_volume().replace(
        "  - {name: wk-1, ip: 10.0.0.21}",
        "  - {name: wk-1, ip: 10.0.0.21}\n  - {name: wk-2, ip: 10.0.0.22}",
    );
    rig.up(&more).await.assert_done();
    let after = rig.vms().await;
    assert!(after[&300].config.contains_key("ide2") && !after[&304].config.contains_key("ide2"));
}

/// Remaining uploads of configs on the image storages: host, file name and size.
async fn uploads(rig: &Rig) -> Vec<(&'static str, String, Option<u64>)> {
    let mut all = vec![];
    for host in ["pve1", "pve2"] {
        let name = host.parse().unwrap();
        let list = storage::content(&name, &"local".parse().unwrap(), Some(Content::Import), None);
        for volume in rig.client(ADMIN).send(&list).await.unwrap() {
            let file = volume.volid.file_name().to_owned();
            if file.strip_suffix(".raw").is_some() {
                all.push((host, file, volume.size));
            }
        }
    }
    all
}

/// Checks that no config is left, neither in an upload nor on a disk of a VM.
async fn assert_scrubbed(rig: &Rig) {
    for (host, file, size) in uploads(rig).await {
        assert_eq!(size, Some(4096), "{file} on {host} holds more than zeros");
    }
    for (vmid, vm) in rig.vms().await {
        assert!(!vm.config.contains_key("scsi30"), "{vmid}: {vm:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_has_the_volumes_of_its_own_nodes_and_keeps_no_config() {
    let rig = Rig::start();
    let text = by_volume().replace("ip: 10.0.0.21", "host: pve2, ip: 10.0.0.21");
    rig.up(&text).await.assert_done();
    let left = uploads(&rig).await;
    let of: Vec<(&str, bool)> =
        left.iter().map(|(host, file, _)| (*host, file.ends_with("-cp-1.raw"))).collect();
    assert_eq!(of, [("pve1", true), ("pve2", false)], "{left:?}");
    assert_scrubbed(&rig).await;
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_leaves_no_config_once_it_is_resumed() {
    for (step, moment) in [
        ("vm/cp-1/upload-config", Moment::AfterAct),
        ("vm/cp-1/create", Moment::AfterAct),
        ("vm/cp-1/scrub-config", Moment::BeforeAct),
        ("vm/cp-1/start", Moment::AfterAct),
        ("vm/cp-1/detach-config", Moment::BeforeAct),
    ] {
        let rig = Rig::start();
        let (hook, times) = once(&StepId::new(step), moment, Cut::Crash);
        rig.up_with(&by_volume(), Some(hook)).await;
        assert_eq!(*times.lock().unwrap(), 1, "{step}");
        rig.up(&by_volume()).await.assert_done();
        assert_scrubbed(&rig).await;
    }
}

/// The new config of a node is uploaded before its old VM is stopped. The run fails or is killed in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_ends_early_leaves_no_config_on_the_storage() {
    let rig = Rig::start();
    rig.up(&by_volume()).await.assert_done();
    let removal = RemovalConsent::All;
    let replace = Scope { replace: ["wk-1".to_owned()].into(), removal, ..Scope::default() };
    let is_full = |(_, file, size): &(&str, String, Option<u64>)| {
        file.ends_with("-wk-1.raw") && *size != Some(4096)
    };
    for ending in [Cut::Fail, Cut::Crash] {
        let plan = rig.plan_within(&by_volume(), &replace).await;
        let (hook, times) = once(&StepId::new("vm/wk-1/stop"), Moment::Begin, ending);
        let ran = rig.carry_out(plan, &by_volume(), Some(hook)).await;
        assert_eq!((*times.lock().unwrap(), ran.outcome.is_done()), (1, false));
        assert_eq!(rig.vms().await[&303].status, "running");
        if ending == Cut::Crash {
            // The next run overwrites the upload of a killed run.
            assert!(uploads(&rig).await.iter().any(is_full));
            rig.up(&by_volume()).await.assert_done();
        }
        assert_scrubbed(&rig).await;
    }
    rig.assert_converged(&by_volume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_volume_of_a_protected_vm_is_deleted() {
    let rig = Rig::start();
    let text = by_volume().replace("ip: 10.0.0.21", "protection: true, ip: 10.0.0.21");
    rig.up(&text).await.assert_done();
    assert_scrubbed(&rig).await;
    assert_eq!(rig.vms().await[&303].config["protection"], "1");
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
}
