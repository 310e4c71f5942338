//! Services that somebody starts, stops and restarts.

use std::collections::BTreeMap;

use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use talmox_talos_api::proto::machine::{ServiceStartRequest, ServiceStopRequest};
use talmox_talos_api::{Client, Code, TalosError};
use talmox_talos_config::client::Role;

use super::raw::Raw;
use super::world::{World, until};

type Machine = MachineServiceClient<Raw>;

async fn machine(world: &World) -> Machine {
    MachineServiceClient::with_origin(world.raw(11).await, "https://node".parse().unwrap())
}

async fn start(machine: &mut Machine, id: &str) -> Result<String, tonic::Status> {
    let started = machine.service_start(ServiceStartRequest { id: id.to_owned() }).await?;
    Ok(started.into_inner().messages.remove(0).resp)
}

async fn stop(machine: &mut Machine, id: &str) -> Result<String, tonic::Status> {
    let stopped = machine.service_stop(ServiceStopRequest { id: id.to_owned() }).await?;
    Ok(stopped.into_inner().messages.remove(0).resp)
}

async fn refused(client: &Client, id: &str) -> (Code, String) {
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
fn a_kubelet_begins_anew_and_everything_else_is_left_to_talos() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.bootstrap(11).await;
        let mut machine = machine(&world).await;
        client.restart_service("kubelet").await.unwrap();
        world.ready(&client).await;
        let services = machine.service_list(()).await.unwrap().into_inner().messages.remove(0);
        let kubelet =
            services.services.into_iter().find(|service| service.id == "kubelet").unwrap();
        let states: Vec<String> =
            kubelet.events.unwrap().events.into_iter().map(|event| event.state).collect();
        let anew = [
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
        assert!(states.ends_with(&anew.map(str::to_owned)), "{states:?}");

        let started = start(&mut machine, "kubelet").await.unwrap();
        assert_eq!(started, "Service \"kubelet\" started");
        assert_eq!(state(&client, "kubelet").await, "Running", "it runs already");
        let stopped = stop(&mut machine, "kubelet").await.unwrap_err();
        let text = "service \"kubelet\" doesn't support stop operation via API";
        assert_eq!((stopped.code(), stopped.message()), (tonic::Code::Unknown, text));
        assert_eq!(
            refused(&client, "etcd").await,
            (
                Code::Unknown,
                "service \"etcd\" doesn't support restart operation via API".to_owned()
            )
        );
        assert_eq!(
            refused(&client, "sshd").await,
            (Code::Unknown, "service \"sshd\" not defined".to_owned())
        );
        let reader = world.client_as(11, &[Role::Reader]);
        assert_eq!(refused(&reader, "kubelet").await.0, Code::PermissionDenied);
    });
    world.lab.stop();
}

#[test]
fn a_guest_agent_is_silent_while_its_service_is_stopped() {
    const AGENT: &str = "ext-qemu-guest-agent";
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.configure(11, true).await;
        until("the agent", || async {
            let services = client.services().await.ok()?;
            services.iter().any(|service| service.id == AGENT).then_some(())
        })
        .await;
        let mut machine = machine(&world).await;
        assert_eq!(world.lab.get(interfaces).status, 200);
        let stopped = stop(&mut machine, AGENT).await.unwrap();
        assert_eq!(stopped, "Service \"ext-qemu-guest-agent\" stopped");
        assert_eq!(state(&client, AGENT).await, "Finished");
        assert_eq!(world.lab.get(interfaces).status, 500);
        assert!(stop(&mut machine, AGENT).await.is_ok(), "it is stopped already");
        client.restart_service(AGENT).await.unwrap();
        assert_eq!(state(&client, AGENT).await, "Running");
        assert_eq!(world.lab.get(interfaces).status, 200);
    });
    world.lab.stop();
}

/// "Services include `auditd`; the last event of a healthy service is `Health check successful`."
#[test]
fn services_tell_how_they_came_up() {
    for (version, has_auditd) in [("v1.8.4", false), ("v1.12.7", true), ("v1.13.6", true)] {
        let world = World::new(version);
        world.start(11);
        world.lab.wait(async {
            world.bootstrap(11).await;
            let mut machine = machine(&world).await;
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
            let told = |id: &str| -> Vec<String> {
                services[id].iter().map(|(state, message)| format!("{state}: {message}")).collect()
            };
            assert_eq!(
                told("etcd"),
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
            assert_eq!(told("machined")[3], "Running: Service started as goroutine", "{version}");
            let udevd = &told("udevd")[3];
            let started = "Running: Process Process([\"/sbin/systemd-udevd\" \"--resolve-names=never\"]) started with PID ";
            assert!(udevd.starts_with(started), "{version}: {udevd}");
        });
        world.lab.stop();
    }
}

/// "1.13's maintenance answers services, logs, dmesg; 1.12's does not."
#[test]
fn services_run_in_maintenance_too() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.lab.wait(async {
        let anonymous = world.maintenance(11);
        let services = until("maintenance", || async { anonymous.services().await.ok() }).await;
        let ids: Vec<&str> = services.iter().map(|service| service.id.as_str()).collect();
        let early = ["apid", "auditd", "containerd", "dashboard", "machined", "syslogd", "udevd"];
        assert_eq!(ids, early);
        assert!(services.iter().all(talmox_talos_api::client::Service::is_fine), "{services:?}");
    });
    world.lab.stop();
}
