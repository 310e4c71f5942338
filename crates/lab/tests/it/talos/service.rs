//! Tests of start, stop and restart of services.

use std::collections::BTreeMap;

use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use talmox_talos_api::proto::machine::{ServiceStartRequest, ServiceStopRequest};
use talmox_talos_api::{Client, Code, TalosError};
use talmox_talos_config::client::ClientRole;

use super::raw_client::Raw;
use super::test_bed::{TestBed, until};

type ServiceCalls = MachineServiceClient<Raw>;

async fn machine(bed: &TestBed) -> ServiceCalls {
    MachineServiceClient::with_origin(bed.raw(11).await, "https://node".parse().unwrap())
}

async fn start(machine: &mut ServiceCalls, id: &str) -> Result<String, tonic::Status> {
    let started = machine.service_start(ServiceStartRequest { id: id.to_owned() }).await?;
    Ok(started.into_inner().messages.remove(0).resp)
}

async fn stop(machine: &mut ServiceCalls, id: &str) -> Result<String, tonic::Status> {
    let stopped = machine.service_stop(ServiceStopRequest { id: id.to_owned() }).await?;
    Ok(stopped.into_inner().messages.remove(0).resp)
}

async fn rejected(client: &Client, id: &str) -> (Code, String) {
    match client.restart_service(id).await.unwrap_err() {
        TalosError::No { code, message, .. } => (code, message),
        other => panic!("{other:?}"),
    }
}

async fn state(client: &Client, id: &str) -> String {
    let services = client.services().await.unwrap();
    services.into_iter().find(|service| service.id == id).unwrap().state
}

#[test]
fn only_the_kubelet_can_be_restarted() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let mut machine = machine(&bed).await;
        client.restart_service("kubelet").await.unwrap();
        bed.ready(&client).await;
        let services = machine.service_list(()).await.unwrap().into_inner().messages.remove(0);
        let kubelet =
            services.services.into_iter().find(|service| service.id == "kubelet").unwrap();
        let states: Vec<String> =
            kubelet.events.unwrap().events.into_iter().map(|event| event.state).collect();
        let restart_states = [
            "Running",
            "Stopping",
            "Finished",
            "Starting",
            "Waiting",
            "Preparing",
            "Preparing",
            "Running",
            "Running",
        ];
        assert!(states.ends_with(&restart_states.map(str::to_owned)), "{states:?}");

        let started = start(&mut machine, "kubelet").await.unwrap();
        assert_eq!(started, "Service \"kubelet\" started");
        assert_eq!(state(&client, "kubelet").await, "Running", "it runs already");
        let stopped = stop(&mut machine, "kubelet").await.unwrap_err();
        let text = "service \"kubelet\" doesn't support stop operation via API";
        assert_eq!((stopped.code(), stopped.message()), (tonic::Code::Unknown, text));
        assert_eq!(
            rejected(&client, "etcd").await,
            (
                Code::Unknown,
                "service \"etcd\" doesn't support restart operation via API".to_owned()
            )
        );
        assert_eq!(
            rejected(&client, "sshd").await,
            (Code::Unknown, "service \"sshd\" not defined".to_owned())
        );
        let reader = bed.client_as(11, &[ClientRole::Reader]);
        assert_eq!(rejected(&reader, "kubelet").await.0, Code::PermissionDenied);
    });
    bed.lab.stop();
}

#[test]
fn the_guest_agent_does_not_answer_while_its_service_is_stopped() {
    const AGENT: &str = "ext-qemu-guest-agent";
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.configure(11, true).await;
        until("the agent", || async {
            let services = client.services().await.ok()?;
            services.iter().any(|service| service.id == AGENT).then_some(())
        })
        .await;
        let mut machine = machine(&bed).await;
        assert_eq!(bed.lab.get(interfaces).status, 200);
        let stopped = stop(&mut machine, AGENT).await.unwrap();
        assert_eq!(stopped, "Service \"ext-qemu-guest-agent\" stopped");
        assert_eq!(state(&client, AGENT).await, "Finished");
        assert_eq!(bed.lab.get(interfaces).status, 500);
        assert!(stop(&mut machine, AGENT).await.is_ok(), "it is stopped already");
        client.restart_service(AGENT).await.unwrap();
        assert_eq!(state(&client, AGENT).await, "Running");
        assert_eq!(bed.lab.get(interfaces).status, 200);
    });
    bed.lab.stop();
}

/// Observed on real nodes: the services include `auditd`. The last event of a healthy service is `Health check successful`.
#[test]
fn services_report_their_start_events() {
    for (version, has_auditd) in [("v1.8.4", false), ("v1.12.7", true), ("v1.13.6", true)] {
        let bed = TestBed::new(version);
        bed.start(11);
        bed.lab.wait(async {
            bed.bootstrap(11).await;
            let mut machine = machine(&bed).await;
            let list = machine.service_list(()).await.unwrap().into_inner().messages.remove(0);
            let services: BTreeMap<String, Vec<(String, String)>> = list
                .services
                .into_iter()
                .map(|service| {
                    let events = service.events.unwrap_or_default().events.into_iter();
                    (service.id, events.map(|event| (event.state, event.msg)).collect())
                })
                .collect();
            assert_eq!(services.contains_key("auditd"), has_auditd, "{version}");
            let checked = services.keys().filter(|id| *id != "dashboard" && !id.starts_with("ext-"));
            for id in checked {
                let last = services[id].last().unwrap();
                let healthy = ("Running".to_owned(), "Health check successful".to_owned());
                assert_eq!(*last, healthy, "{version}: {id}");
            }
            let messages_of = |id: &str| -> Vec<String> {
                services[id].iter().map(|(state, message)| format!("{state}: {message}")).collect()
            };
            assert_eq!(
                messages_of("etcd"),
                [
                    "Starting: Starting service",
                    "Waiting: Waiting for service \"cri\" to be \"up\", time sync, network, etcd spec",
                    "Preparing: Running pre state",
                    "Preparing: Creating service runner",
                    "Running: Started task etcd (PID 2011) for container etcd",
                    "Running: Health check successful",
                ],
                "{version}"
            );
            assert_eq!(messages_of("machined")[3], "Running: Service started as goroutine", "{version}");
            let udevd = &messages_of("udevd")[3];
            let started = "Running: Process Process([\"/sbin/systemd-udevd\" \"--resolve-names=never\"]) started with PID ";
            assert!(udevd.starts_with(started), "{version}: {udevd}");
        });
        bed.lab.stop();
    }
}

/// Observed on real nodes: in maintenance mode, 1.13 answers requests for services, logs and the kernel log. 1.12 does not.
#[test]
fn services_run_in_maintenance_mode() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let anonymous = bed.maintenance(11);
        let services =
            until("maintenance mode", || async { anonymous.services().await.ok() }).await;
        let ids: Vec<&str> = services.iter().map(|service| service.id.as_str()).collect();
        let early = ["apid", "auditd", "containerd", "dashboard", "machined", "syslogd", "udevd"];
        assert_eq!(ids, early);
        assert!(services.iter().all(talmox_talos_api::client::Service::is_fine), "{services:?}");
    });
    bed.lab.stop();
}
