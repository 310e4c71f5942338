//! Waiting for a machine that restarts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_clock::{Clock, Wait, WaitError};
use talmox_talos_api::client::{Actor, RebootMode};
use talmox_talos_api::proto::common::{Data, Error as SequenceError};
use talmox_talos_api::proto::cosi::resource::state_server::{State, StateServer};
use talmox_talos_api::proto::cosi::resource::{
    GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec,
};
use talmox_talos_api::proto::machine::machine_service_server::{
    MachineService, MachineServiceServer,
};
use talmox_talos_api::proto::machine::machine_status_event::{MachineStage, MachineStatus};
use talmox_talos_api::proto::machine::*;
use talmox_talos_api::server::{Answered, Asked, Services, Status};
use talmox_talos_api::{Client, Expected, Follow, FollowError, LookError};
use tonic::codegen::BoxStream;

use crate::fixture::{Cluster, HOST, Server, host, maintenance_tls_config};
use crate::node::{event, pieces, stream_that_stays_open};

/// Machine that counts its boots, and restarts or fails on request.
#[derive(Default)]
struct RestartingMachine {
    boot: AtomicUsize,
    fails: AtomicBool,
    /// `tail` and actor of each request for events.
    asked: Mutex<Vec<(i32, String)>>,
}

impl RestartingMachine {
    fn boots(&self) {
        self.boot.fetch_add(1, Ordering::SeqCst);
    }
}

fn status(id: &str, stage: MachineStage, unmet: &[&str]) -> Event {
    let unmet_conditions = unmet
        .iter()
        .map(|name| machine_status_event::machine_status::UnmetCondition {
            name: (*name).to_owned(),
            reason: "not yet".to_owned(),
        })
        .collect();
    let status = MachineStatus { ready: unmet.is_empty(), unmet_conditions };
    event(
        id,
        "MachineStatusEvent",
        &MachineStatusEvent { stage: stage.into(), status: Some(status) },
    )
}

#[tonic::async_trait]
impl MachineService for RestartingMachine {
    async fn reboot(&self, _: Asked<RebootRequest>) -> Result<Answered<RebootResponse>, Status> {
        let reboot = Reboot { actor_id: "actor".to_owned(), metadata: None };
        Ok(Answered::new(RebootResponse { messages: vec![reboot] }))
    }

    async fn read(&self, _: Asked<ReadRequest>) -> Result<Answered<BoxStream<Data>>, Status> {
        let boot = format!("boot-{}\n", self.boot.load(Ordering::SeqCst));
        Ok(Answered::new(pieces(vec![Data { bytes: boot.into_bytes(), metadata: None }])))
    }

    async fn events(
        &self,
        request: Asked<EventsRequest>,
    ) -> Result<Answered<BoxStream<Event>>, Status> {
        let request = request.into_inner();
        self.asked.lock().unwrap().push((request.tail_events, request.with_actor_id.clone()));
        let sequence = |action: sequence_event::Action, error: Option<&str>| SequenceEvent {
            sequence: "reboot".to_owned(),
            action: action.into(),
            error: error
                .map(|text| SequenceError { message: text.to_owned(), ..SequenceError::default() }),
        };
        let mut events = match (self.boot.load(Ordering::SeqCst), request.with_actor_id.as_str()) {
            (0, "actor") => vec![
                event("a1", "SequenceEvent", &sequence(sequence_event::Action::Start, None)),
                event(
                    "a2",
                    "PhaseEvent",
                    &PhaseEvent { phase: "stopServices".to_owned(), action: 0 },
                ),
            ],
            (0, _) => vec![status("0", MachineStage::Running, &[])],
            (_, "") => vec![
                status("b1", MachineStage::Booting, &["services"]),
                status("b2", MachineStage::Running, &[]),
            ],
            _ => vec![],
        };
        if self.fails.load(Ordering::SeqCst) {
            let failed = sequence(sequence_event::Action::Stop, Some("failed to unmount /var"));
            events.push(event("a3", "SequenceEvent", &failed));
        }
        Ok(Answered::new(stream_that_stays_open(events)))
    }
}

#[tonic::async_trait]
impl State for RestartingMachine {
    async fn get(&self, request: Asked<GetRequest>) -> Result<Answered<GetResponse>, Status> {
        let request = request.into_inner();
        let metadata = Metadata { id: request.id, ..Metadata::default() };
        let yaml_spec = "uuid: 1234\nstage: running\nstatus:\n    ready: true\n".to_owned();
        let spec = Spec { yaml_spec, proto_spec: vec![] };
        let resource = Resource { metadata: Some(metadata), spec: Some(spec) };
        Ok(Answered::new(GetResponse { resource: Some(resource) }))
    }

    async fn list(
        &self,
        _: Asked<ListRequest>,
    ) -> Result<Answered<BoxStream<ListResponse>>, Status> {
        Ok(Answered::new(pieces(vec![])))
    }
}

struct Setup {
    cluster: Cluster,
    machine: Arc<RestartingMachine>,
    server: Server,
    client: Client,
    follow: Follow,
}

async fn setup() -> Setup {
    let (cluster, machine) = (Cluster::new(), Arc::new(RestartingMachine::default()));
    let services = Services::builder()
        .with(MachineServiceServer::from_arc(Arc::clone(&machine)))
        .with(StateServer::from_arc(Arc::clone(&machine)))
        .build();
    let server = Server::start(cluster.tls_config(HOST), services).await;
    let client = Client::new(host(), &cluster.credentials(), &server.settings()).unwrap();
    let follow = Follow::prepare(&client).await.unwrap();
    Setup { cluster, machine, server, client, follow }
}

fn wait() -> Wait<'static> {
    let clock = Clock::scaled(20.0);
    Wait::new(clock, clock.deadline(Duration::from_mins(10)), "the node to reboot")
}

/// Waits until a client has requested events `count` times.
async fn until_requested(machine: &RestartingMachine, count: usize) {
    while machine.asked.lock().unwrap().len() < count {
        Clock::real().sleep(Duration::from_millis(5)).await;
    }
    // Waits until the sent events have arrived.
    Clock::real().sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_reboot_is_followed_over_the_lost_connection_to_another_boot() {
    let Setup { machine, server, client, follow, .. } = setup().await;
    let actor = client.reboot(RebootMode::Default).await.unwrap();
    let reports = Mutex::new(vec![]);
    let report = |text: &str| reports.lock().unwrap().push(text.to_owned());
    let mut wait = wait().reporting(report);
    let restart = async {
        until_requested(&machine, 1).await;
        // A lost connection alone does not prove a restart: the machine answers with the same boot ID.
        server.cut();
        until_requested(&machine, 2).await;
        machine.boots();
        server.cut();
    };
    let (ended, ()) = tokio::join!(follow.to_running(&actor, &mut wait), restart);
    ended.unwrap();
    let reports = reports.lock().unwrap().clone();
    let line = |answer: &str| format!("waiting for the node to reboot: {answer}");
    assert_eq!(reports[..2], ["reboot started", "phase stopServices"].map(line));
    assert_eq!(
        reports[reports.len() - 2..],
        ["the machine is booting: services: not yet", "the machine is running"].map(line)
    );
    // Every event is reported once, although each stream repeats the events.
    assert_eq!(
        reports.iter().filter(|text| **text == line("reboot started")).count(),
        1,
        "{reports:?}"
    );
    let asked = machine.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|(tail, _)| *tail == -1), "{asked:?}");
    assert_eq!(asked[..2], [(-1, "actor".to_owned()), (-1, "actor".to_owned())]);
    assert_eq!(asked.last().unwrap().1, "");
}

#[tokio::test]
async fn a_failed_sequence_ends_the_wait() {
    let Setup { machine, client, follow, server: _server, .. } = setup().await;
    machine.fails.store(true, Ordering::SeqCst);
    let actor = client.reboot(RebootMode::Default).await.unwrap();
    let error = follow.to_running(&actor, &mut wait()).await.unwrap_err();
    assert!(matches!(error, FollowError::Failed { .. }), "{error:?}");
    assert_eq!(error.to_string(), "reboot failed: failed to unmount /var");
}

#[tokio::test]
async fn a_machine_that_does_not_restart_times_out() {
    let Setup { client, server: _server, .. } = setup().await;
    let clock = Clock::scaled(1000.0);
    let deadline = clock.deadline(Duration::from_mins(1));
    let mut wait = Wait::new(clock, deadline, "the node to reboot").pausing(Duration::ZERO);
    let follow = Follow::prepare(&client).await.unwrap();
    let error = follow.to_running(&Actor("actor".to_owned()), &mut wait).await.unwrap_err();
    let FollowError::Look(LookError::Wait(WaitError::TimedOut { reason, .. })) = error else {
        panic!("{error:?}")
    };
    assert_eq!(reason, "the machine has not restarted");
}

#[tokio::test]
async fn a_reset_leads_to_maintenance_mode() {
    let Setup { cluster, machine, server, follow, .. } = setup().await;
    let reset = async {
        until_requested(&machine, 1).await;
        server.set_tls_config(maintenance_tls_config(HOST));
        server.cut();
    };
    let (credentials, settings) = (cluster.credentials(), server.settings());
    let (actor, who) = (Actor("actor".to_owned()), (&credentials, &settings));
    let expected = Expected { uuid: Some("1234".to_owned()), ..Expected::default() };
    let mut wait = wait();
    let (found, ()) = tokio::join!(follow.to_maintenance(&actor, who, &expected, &mut wait), reset);
    assert!(found.unwrap().pin.is_some());
    let other = Expected { uuid: Some("5678".to_owned()), ..Expected::default() };
    let error = follow.to_maintenance(&actor, who, &other, &mut wait).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "another machine answers in maintenance mode at this address: its SMBIOS UUID is 1234, not 5678"
    );
}
