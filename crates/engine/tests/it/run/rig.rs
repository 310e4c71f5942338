//! A lab, the context in which steps run against it, and helpers that build steps.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_engine::event::{Event, Events, Stamped, StepEnd};
use talmox_engine::execute::{Cancel, Outcome, StepResult, execute};
use talmox_engine::step::{Context, Cut, CutHook, Moment};
use talmox_lab::pve::{Action as FaultAction, Profile};
use talmox_lab::{Lab, Scenario, Settings};
use talmox_plan::ownership::{ClusterMark, Identity, Marker, SmbiosUuid, Stage};
use talmox_plan::plan::{
    Action, CreateVm, FinishVm, OwnVm, Plan, ResizeDisk, StartVm, Step, StepId,
};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::client::Client;
use talmox_pve::config::{VmConfig, VmOptions};
use talmox_pve::id::VmId;
use talmox_pve::property::{BootOrder, Drive, IpConfig, Net, Smbios, Tags};
use tempfile::TempDir;

use crate::common;

pub(super) use crate::common::{ADMIN, TALMOX};

/// Speed of lab time.
const SPEED: f64 = 100.0;
pub(super) const DEADLINE: Duration = Duration::from_mins(30);
pub(super) const RELEASES: [&str; 2] = ["9.2", "8.4"];
pub(super) struct Rig {
    pub(super) lab: Lab,
    record: PathBuf,
    reach: BTreeMap<String, SocketAddr>,
    _folder: TempDir,
}

/// Outcome and events of a run.
pub(super) struct CompletedRun {
    pub(super) outcome: Outcome,
    pub(super) events: Vec<Stamped>,
}

impl Rig {
    pub(super) fn start(release: &str) -> Self {
        Self::reaching(release, BTreeMap::new())
    }

    /// A lab whose hosts, and talmox itself, reach each `host:port` of the map at the given address.
    pub(super) fn reaching(release: &str, reach: BTreeMap<String, SocketAddr>) -> Self {
        let folder = TempDir::new().unwrap();
        let record = folder.path().join("record");
        let text = include_str!("test_scenario.yaml").replace("RELEASE", release);
        let settings = Settings {
            scenario: Scenario::parse("test_scenario.yaml", &text).unwrap(),
            speed: SPEED,
            profile: Profile::Fast,
            record: Some(record.clone()),
            reach: reach.clone(),
            ..Settings::default()
        };
        Self { lab: Lab::start(settings).unwrap(), record, reach, _folder: folder }
    }

    pub(super) fn client(&self, token: &str) -> Client {
        common::client(&self.lab, token)
    }

    pub(super) fn context(&self, token: &str) -> Context {
        let reach = self.reach.iter().map(|(name, address)| (name.clone(), address.to_string()));
        Context {
            clock: self.lab.clock(),
            pve: self.client(token),
            web: common::web(&self.lab, reach),
            cluster: None,
            locks: vec![],
            seed: 7,
            cut: None,
        }
    }

    /// Runs steps with a token that has only the documented roles.
    pub(super) async fn run(&self, steps: &[Step]) -> CompletedRun {
        self.run_with(steps, &self.context(TALMOX)).await
    }

    pub(super) async fn run_with(&self, steps: &[Step], context: &Context) -> CompletedRun {
        run(steps, context, &Cancel::default()).await
    }

    /// Runs steps until this moment of this step, as if the process had been killed there.
    pub(super) async fn run_until(&self, steps: &[Step], step: &str, at: Moment) -> CompletedRun {
        let context = Context { cut: Some(once(step, at, Cut::Crash)), ..self.context(TALMOX) };
        self.run_with(steps, &context).await
    }

    /// The config of a VM, read with administrator rights.
    pub(super) async fn config(&self, vm: &Vm) -> VmConfig {
        self.client(ADMIN).send(&qemu::config(vm)).await.unwrap()
    }

    /// Requests so far, as method and path, without reads of tasks.
    pub(super) fn recorded_requests(&self) -> Vec<String> {
        common::recorded_requests(&self.record)
    }

    pub(super) fn record(&self) -> String {
        std::fs::read_to_string(&self.record).unwrap()
    }

    /// Injects a fault into the first request with this method and path.
    pub(super) fn inject_fault(&self, method: &str, path: &str, action: FaultAction) {
        common::inject_fault(&self.lab, method, path, 1, action);
    }

    /// Injects a fault into the first task of this kind.
    pub(super) fn inject_task_fault(&self, task: &str, action: FaultAction) {
        common::inject_task_fault(&self.lab, task, action);
    }
}

pub(super) async fn run(steps: &[Step], context: &Context, cancel: &Cancel) -> CompletedRun {
    run_until_event(steps, context, cancel, |_| false).await
}

/// Runs steps, and cancels the run after an event for which `is_enough` returns true.
pub(super) async fn run_until_event(
    steps: &[Step],
    context: &Context,
    cancel: &Cancel,
    is_enough: impl Fn(&Event) -> bool,
) -> CompletedRun {
    let plan = Plan {
        cluster: "home".to_owned(),
        changes: vec![],
        findings: vec![],
        steps: steps.to_vec(),
    };
    let (events, mut heard) = Events::channel(context.clock);
    let running = async {
        let outcome = execute(&plan, context, cancel, &events).await;
        drop(events);
        outcome
    };
    let hearing = async {
        let mut all = vec![];
        while let Some(event) = heard.recv().await {
            if is_enough(&event.what) {
                cancel.cancel();
            }
            all.push(event);
        }
        all
    };
    let (outcome, events) = tokio::join!(running, hearing);
    common::assert_waits(&events);
    CompletedRun { outcome, events }
}

/// Hook that applies a cut once, when this step first reaches this moment.
pub(super) fn once(step: &str, at: Moment, what: Cut) -> CutHook {
    let step = StepId::new(step);
    let left = Mutex::new(true);
    Arc::new(move |id, moment| {
        let is_it = *id == step && moment == at;
        if is_it && std::mem::take(&mut *left.lock().unwrap()) { what } else { Cut::Go }
    })
}

impl CompletedRun {
    /// The steps with their results, in the order of the plan.
    pub(super) fn results(&self) -> Vec<String> {
        let shown = |result: &StepResult| match result {
            StepResult::Done => "done".to_owned(),
            StepResult::Already => "already".to_owned(),
            StepResult::Failed(error) => format!("failed: {error}"),
            StepResult::Blocked { by } => format!("blocked by {by}"),
            StepResult::Cancelled => "cancelled".to_owned(),
        };
        self.outcome
            .steps
            .iter()
            .map(|(step, result)| format!("{step} {}", shown(result)))
            .collect()
    }

    /// The end in the last event about the end of a step.
    pub(super) fn reported_end(&self) -> Option<StepEnd> {
        self.events.iter().rev().find_map(|event| match &event.what {
            Event::StepEnded { end, .. } => Some(end.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(super) fn assert_done(&self) {
        assert!(self.outcome.is_done(), "{:#?}", self.outcome.steps);
    }

    /// The first failure with its causes, and its hint.
    #[track_caller]
    pub(super) fn failure(&self) -> (String, String) {
        let (_, error) = self.outcome.failures().next().expect("nothing failed");
        let mut texts = vec![error.to_string()];
        texts.extend(error.causes());
        (texts.join(": "), error.hint.clone().unwrap_or_default())
    }

    pub(super) fn notes(&self) -> Vec<&str> {
        common::notes(&self.events)
    }

    pub(super) fn waits(&self) -> Vec<&str> {
        common::waits(&self.events)
    }

    pub(super) fn retries(&self) -> usize {
        let is_retry = |event: &&Stamped| matches!(event.what, Event::StepRetries { .. });
        self.events.iter().filter(is_retry).count()
    }
}

/// Parses an identifier of any type.
pub(super) fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(super) fn vm(number: u32) -> Vm {
    Vm::new(&id("pve1"), VmId::new(number).unwrap())
}

pub(super) fn own(name: &str, number: u32) -> OwnVm {
    let identity = Identity {
        cluster: ClusterMark::of("test"),
        node: name.to_owned(),
        uuid: SmbiosUuid::of("test", name),
    };
    OwnVm { vm: vm(number), identity }
}

pub(super) fn description(own: &OwnVm, stage: Stage) -> String {
    let node = own.identity.node.clone();
    let marker = Marker {
        cluster: ClusterMark::of("test"),
        node,
        stage,
        data: None,
        are_tags_rejected: false,
        first_role: None,
        own_tags: Tags::default(),
        notes: None,
    };
    marker.description("home")
}

/// Options of a VM as talmox creates it, without tags, which are set later.
pub(super) fn machine(own: &OwnVm, image: &str) -> VmOptions {
    let lvm = id("local-lvm");
    VmOptions::new()
        .name(&own.identity.node)
        .description(&description(own, Stage::Create))
        .machine("q35")
        .bios("ovmf")
        .cpu("host")
        .cores(2)
        .memory_mib(2048)
        .balloon_mib(0)
        .scsihw("virtio-scsi-pci")
        .set("efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=0")
        .drive(&id("scsi0"), &Drive::import(&lvm, &id(image)).with("discard", "on"))
        .drive(&id("ide2"), &Drive::cloudinit(&lvm))
        .ipconfig(0, &IpConfig::parse("ip=10.0.0.30/24,gw=10.0.0.1"))
        .net(0, &Net::virtio(id("BC:24:11:00:00:01"), &id("vmbr0")))
        .serial_socket(0)
        .smbios1(&Smbios::with_uuid(&own.identity.uuid.to_string()))
        .boot(&BootOrder::of(["scsi0"]))
}

pub(super) fn step(name: &str, action: Action, after: &[&str]) -> Step {
    Step {
        id: StepId::new(name),
        node: None,
        action,
        after: after.iter().map(|name| StepId::new(*name)).collect(),
    }
}

pub(super) fn create(own: &OwnVm) -> Action {
    Action::CreateVm(CreateVm {
        own: own.clone(),
        pool: Some(id("talos")),
        options: machine(own, "local:import/talos.qcow2"),
        running: None,
        deadline: DEADLINE,
    })
}

pub(super) fn resize(own: &OwnVm) -> Action {
    Action::ResizeDisk(ResizeDisk {
        own: own.clone(),
        slot: id("scsi0"),
        gib: 40,
        deadline: DEADLINE,
    })
}

/// Sets the stage `made`, tags, and the given options.
pub(super) fn finish(own: &OwnVm, also: VmOptions) -> Action {
    let set = also
        .description(&description(own, Stage::Made))
        .tags(&Tags::of(["talmox", "home"]))
        .onboot(true);
    Action::FinishVm(FinishVm { own: own.clone(), set, delete: vec![], deadline: DEADLINE })
}

pub(super) fn start(own: &OwnVm) -> Action {
    Action::StartVm(StartVm { own: own.clone(), deadline: DEADLINE })
}

/// The steps that create `first`, and the steps that create `own` after `first` is finished. The tags of `own` are then known
/// to be allowed.
pub(super) fn bring_up_after(first: &OwnVm, own: &OwnVm) -> Vec<Step> {
    let mut steps = bring_up(first);
    let mut second = bring_up(own);
    let after = format!("{}/finish", first.identity.node);
    second[0] = step(&format!("{}/create", own.identity.node), create(own), &[&after]);
    steps.extend(second);
    steps
}

/// The steps that create and start a VM: `NAME/create` and so on.
pub(super) fn bring_up(own: &OwnVm) -> Vec<Step> {
    let name = |act: &str| format!("{}/{act}", own.identity.node);
    let (made, grown, finished) = (name("create"), name("resize"), name("finish"));
    vec![
        step(&made, create(own), &[]),
        step(&grown, resize(own), &[&made]),
        step(&finished, finish(own, VmOptions::new()), &[&grown]),
        step(&name("start"), start(own), &[&finished]),
    ]
}
