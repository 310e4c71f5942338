//! A lab, and functions that plan and create clusters in it from inventories.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_engine::access::{ClientFiles, ClusterAccess, PROVISIONAL};
use talmox_engine::event::{Event, Events, Stamped};
use talmox_engine::execute::{Cancel, Outcome, execute};
use talmox_engine::kube::KubeClient;
use talmox_engine::observe::{
    Purpose, Sources, TalosAccess, observe, observe_images, observe_removed,
};
use talmox_engine::step::{Context, Cut, CutHook, Moment};
use talmox_lab::pve::{Action as FaultAction, Profile};
use talmox_lab::{Lab, NodeSettings, Scenario, Settings, Watched, Watcher};
use talmox_plan::desired::{Contact, Desired};
use talmox_plan::observed::Observed;
use talmox_plan::plan::{Plan, StepId, show};
use talmox_plan::planning::{self, DestroyOptions, PlanOptions, Scope};
use talmox_pve::PveError;
use talmox_pve::client::Client;
use talmox_talos_api::{
    Address, Credentials as TalosCredentials, Reach, Settings as TalosSettings,
};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;
use tempfile::TempDir;

use super::inventory;
use crate::common;

pub(crate) use crate::common::{ADMIN, TALMOX};

/// Default of [`LabOptions::speed`].
const SPEED: f64 = 50.0;
/// Maximum time of a run, in real time. A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// Settings of a lab.
#[derive(Clone, Debug)]
pub(crate) struct LabOptions {
    pub(crate) release: &'static str,
    pub(crate) profile: Profile,
    /// Replacements in the text of the scenario: old and new text.
    pub(crate) with: Vec<(&'static str, String)>,
    pub(crate) nodes: NodeSettings,
    pub(crate) seed: u64,
    /// Speed of lab time relative to real time.
    pub(crate) speed: f64,
}

impl Default for LabOptions {
    fn default() -> Self {
        let nodes = NodeSettings {
            networks: vec![Ipv4Addr::new(10, 0, 0, 0)],
            gateways: vec![IpAddr::from([10, 0, 0, 1])],
            ..NodeSettings::default()
        };
        Self {
            release: "9.2",
            profile: Profile::Instant,
            with: vec![],
            nodes,
            seed: 0,
            speed: SPEED,
        }
    }
}

pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) bundle: Bundle,
    /// Token that talmox uses.
    pub(crate) token: &'static str,
    pub(crate) files: Arc<Mutex<Vec<ClientFiles>>>,
    /// Addresses in client files of earlier runs.
    pub(crate) earlier: Vec<IpAddr>,
    /// Prefixes of the addresses of the cluster that talmox cannot reach.
    pub(crate) closed: &'static [&'static str],
    /// Addresses with ports, and the addresses to which their connections are redirected.
    pub(crate) detours: Vec<(String, String)>,
    /// Limits of `up`, and the consent of the user.
    pub(crate) scope: Scope,
    /// Watcher of the invariants of the lab. Tests of changes to a cluster assert that it found no violation.
    pub(crate) watcher: Watcher,
    record: PathBuf,
    _folder: TempDir,
}

/// Plan, outcome and events of a run.
#[derive(Debug)]
pub(crate) struct CompletedRun {
    pub(crate) plan: Plan,
    pub(crate) outcome: Outcome,
    pub(crate) events: Vec<Stamped>,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::of(LabOptions::default())
    }

    pub(crate) fn of(lab_options: LabOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let record = folder.path().join("record");
        let mut text = include_str!("test_scenario.yaml").replace("RELEASE", lab_options.release);
        for (from, to) in lab_options.with {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, &to, 1);
        }
        let settings = Settings {
            scenario: Scenario::parse("test_scenario.yaml", &text).unwrap(),
            speed: lab_options.speed,
            profile: lab_options.profile,
            seed: lab_options.seed,
            record: Some(record.clone()),
            nodes: lab_options.nodes,
            ..Settings::default()
        };
        let lab = Lab::start(settings).unwrap();
        let token = TALMOX.split_once('=').unwrap().0.to_owned();
        let watched = Watched { tokens: [token].into(), foreign: lab.vmids() };
        Self {
            watcher: lab.watch_invariants(watched),
            lab,
            bundle: inventory::bundle(),
            token: TALMOX,
            files: Arc::default(),
            earlier: vec![],
            closed: &[],
            detours: vec![],
            scope: Scope::default(),
            record,
            _folder: folder,
        }
    }

    pub(crate) fn client(&self, token: &str) -> Client {
        common::client(&self.lab, token)
    }

    pub(crate) fn access(&self) -> TalosAccess {
        let now = UnixTime::from_seconds(self.lab.clock().unix().try_into().unwrap());
        let day = Duration::from_hours(24);
        let randomness = &mut SystemRandomness::new();
        let credentials =
            TalosCredentials::issue(&self.bundle, &[ClientRole::Admin], day, now, randomness)
                .unwrap();
        let mut settings = TalosSettings::new(self.lab.clock());
        let reach = self.lab.ready().reach.into_iter().map(|(address, at)| {
            let is_closed = self.closed.iter().any(|start| address.starts_with(start));
            (address, if is_closed { "127.0.0.1:1".to_owned() } else { at })
        });
        settings.reach = Reach::new(reach.chain(self.detours.clone()));
        TalosAccess { credentials, settings }
    }

    pub(crate) fn cluster(&self, desired: &Desired) -> ClusterAccess {
        let TalosAccess { credentials, settings } = self.access();
        let known = desired.control_planes().filter_map(|node| match node.contact {
            Contact::At(address) => Some(address),
            Contact::AskAgent => None,
        });
        let addresses = desired.vip.into_iter().chain(known);
        let files = Arc::clone(&self.files);
        ClusterAccess {
            bundle: Arc::new(self.bundle.clone()),
            credentials,
            settings,
            api: addresses
                .map(|address| Address { host: address.to_string(), port: 6443 })
                .collect(),
            earlier: self.earlier.clone(),
            write_files: Arc::new(move |made| {
                files.lock().unwrap().push(made);
                Ok(())
            }),
        }
    }

    pub(crate) fn desired(&self, text: &str) -> Desired {
        inventory::desired(text, &self.bundle)
    }

    pub(crate) async fn observe(&self, desired: &Desired) -> Result<Observed, PveError> {
        let (pve, talos) = (self.client(self.token), self.access());
        let (kube, web) = (self.kube_of(desired), common::web(&self.lab, []));
        let sources =
            Sources { pve: &pve, talos: &talos, kube: &kube, web: &web, purpose: Purpose::Change };
        in_time(observe(desired, &sources)).await
    }

    /// The plan of `up` within the scope of the rig.
    pub(crate) async fn plan(&self, text: &str) -> Plan {
        Box::pin(self.plan_within(text, &self.scope)).await
    }

    /// The plan of `up` within another scope.
    pub(crate) async fn plan_within(&self, text: &str, scope: &Scope) -> Plan {
        let desired = self.desired(text);
        let observed = self.observe(&desired).await.unwrap();
        let goes_around = planning::leads_around(&desired, &observed);
        let fits =
            |made: &ClientFiles| made.kubeconfig.expose().starts_with(PROVISIONAL) == goes_around;
        let has_client_files = self.files.lock().unwrap().last().is_some_and(fits);
        planning::plan_within(
            &desired,
            &observed,
            PlanOptions { has_client_files, was_up: has_client_files, was_bootstrapped: false },
            scope,
        )
    }

    /// Runs `up` within a scope. Changes may be left, but the invariants of the lab must hold.
    pub(crate) async fn up_within(&self, text: &str, scope: &Scope) -> CompletedRun {
        let plan = Box::pin(self.plan_within(text, scope)).await;
        assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
        let ran = self.carry_out(plan, text, None).await;
        self.watcher.assert_none();
        ran
    }

    /// Runs `up`, and checks that it succeeds, that the next plan is empty, and that the invariants of the lab hold.
    pub(crate) async fn converge(&self, text: &str) -> CompletedRun {
        let ran = Box::pin(self.up_within(text, &self.scope)).await;
        ran.assert_done();
        self.assert_converged(text).await;
        ran
    }

    /// Asserts that nothing is left to do, and that the invariants of the lab held.
    pub(crate) async fn assert_converged(&self, text: &str) {
        let rest = self.plan(text).await;
        assert!(rest.is_empty(), "{}", show::text(&rest));
        self.watcher.assert_none();
    }

    /// Plans and runs `up`, with a hook that may interrupt it.
    pub(crate) async fn up_with(&self, text: &str, cut: Option<CutHook>) -> CompletedRun {
        let plan = self.plan(text).await;
        let (errors, open) = (plan.errors().count(), plan.open_changes().count());
        assert_eq!((errors, open), (0, 0), "{}", show::text(&plan));
        self.carry_out(plan, text, cut).await
    }

    pub(crate) async fn up(&self, text: &str) -> CompletedRun {
        self.up_with(text, None).await
    }

    pub(crate) async fn destroy(&self, text: &str) -> CompletedRun {
        self.destroy_with(text, DestroyOptions::default()).await
    }

    pub(crate) async fn destroy_with(&self, text: &str, options: DestroyOptions) -> CompletedRun {
        let plan = self.destroy_plan(text, options).await;
        assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
        self.carry_out(plan, text, None).await
    }

    /// The plan of `talmox destroy`.
    pub(crate) async fn destroy_plan(&self, text: &str, options: DestroyOptions) -> Plan {
        let (desired, client) = (self.desired(text), self.client(self.token));
        let mut observed = self.observe(&desired).await.unwrap();
        observed.images = observe_images(&desired, &client, &observed.pve).await;
        observe_removed(&desired, &client, &mut observed.pve).await;
        planning::destroy(&desired, &observed, options)
    }

    /// Runs `up` and kills the run when this step starts. Returns whether the step started.
    pub(crate) async fn up_until_started(&self, text: &str, step: &StepId) -> bool {
        let is_it = |event: &Event| matches!(event, Event::StepStarted { step: one } if one == step.as_str());
        self.up_until(text, is_it).await
    }

    /// Runs `up` and kills the run after an event for which `is_enough` returns true. Returns whether there was such an
    /// event.
    pub(crate) async fn up_until(
        &self,
        text: &str,
        mut is_enough: impl FnMut(&Event) -> bool,
    ) -> bool {
        let plan = self.plan(text).await;
        let context = self.context(text, None);
        let (events, mut heard) = Events::channel(self.lab.clock());
        let cancel = Cancel::default();
        let heard_enough = async {
            while let Some(event) = heard.recv().await {
                if is_enough(&event.what) {
                    return true;
                }
            }
            false
        };
        tokio::select! {
            _ = in_time(execute(&plan, &context, &cancel, &events)) => false,
            is_so_far = heard_enough => is_so_far,
        }
    }

    pub(crate) fn kube_of(&self, desired: &Desired) -> KubeClient {
        let access = self.cluster(desired);
        let randomness = &mut SystemRandomness::new();
        KubeClient::new(&access.bundle, &access.api, &access.settings, randomness).unwrap()
    }

    pub(crate) fn context(&self, text: &str, cut: Option<CutHook>) -> Context {
        Context {
            clock: self.lab.clock(),
            pve: self.client(self.token),
            web: common::web(&self.lab, []),
            cluster: Some(self.cluster(&self.desired(text))),
            locks: vec![],
            seed: 7,
            cut,
        }
    }

    pub(crate) async fn carry_out(
        &self,
        plan: Plan,
        text: &str,
        cut: Option<CutHook>,
    ) -> CompletedRun {
        self.carry_out_in(plan, self.context(text, cut)).await
    }

    pub(crate) async fn carry_out_in(&self, plan: Plan, context: Context) -> CompletedRun {
        let (events, mut heard) = Events::channel(self.lab.clock());
        let cancel = Cancel::default();
        let running = tokio::time::timeout(LIMIT, execute(&plan, &context, &cancel, &events));
        let outcome = running.await;
        drop(events);
        let mut all = vec![];
        while let Ok(event) = heard.try_recv() {
            all.push(event);
        }
        let Ok(outcome) = outcome else { panic!("it hangs:\n{}", event_lines(&all)) };
        common::assert_waits(&all);
        CompletedRun { plan, outcome, events: all }
    }

    /// Requests to Proxmox so far, as method and path, without reads of tasks.
    pub(crate) fn recorded_requests(&self) -> Vec<String> {
        common::recorded_requests(&self.record)
    }

    /// Injects a fault into the first `times` requests with this method and path.
    pub(crate) fn inject_fault(&self, method: &str, path: &str, times: u64, action: FaultAction) {
        common::inject_fault(&self.lab, method, path, times, action);
    }

    /// Injects a fault into the first task of this kind.
    pub(crate) fn inject_task_fault(&self, task: &str, action: FaultAction) {
        common::inject_task_fault(&self.lab, task, action);
    }
}

/// Panics if the future takes longer than `LIMIT`.
async fn in_time<T>(doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, doing).await.expect("it hangs")
}

/// Hook that applies a cut once, when this step first reaches this moment. The counter shows how often the step reached it.
pub(crate) fn once(step: &StepId, at: Moment, what: Cut) -> (CutHook, Arc<Mutex<u32>>) {
    let (step, times) = (step.clone(), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&times);
    let hook: CutHook = Arc::new(move |id, moment| {
        if *id != step || moment != at {
            return Cut::Go;
        }
        let mut times = counted.lock().unwrap();
        *times += 1;
        if *times == 1 { what } else { Cut::Go }
    });
    (hook, times)
}

impl CompletedRun {
    #[track_caller]
    pub(crate) fn assert_done(&self) {
        let failures: Vec<_> = self.outcome.failures().collect();
        assert!(self.outcome.is_done(), "{failures:#?}\n{}", event_lines(&self.events));
    }

    /// The failures, each with its causes and its hint.
    pub(crate) fn failures(&self) -> String {
        let shown = self.outcome.failures().map(|(step, error)| {
            let mut texts = vec![format!("{step}: {error}")];
            texts.extend(error.causes());
            texts.extend(error.hint.iter().map(|hint| format!("hint: {hint}")));
            texts.join("\n  ")
        });
        shown.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn notes(&self) -> Vec<&str> {
        common::notes(&self.events)
    }

    pub(crate) fn waits(&self) -> Vec<&str> {
        common::waits(&self.events)
    }
}

/// All events, one on each line, with lab time.
fn event_lines(events: &[Stamped]) -> String {
    let lines = events.iter().skip(1).map(|event| {
        let what = serde_json::to_string(&event.what).unwrap();
        format!("{:.1} {what}", event.time - events[0].time)
    });
    lines.collect::<Vec<_>>().join("\n")
}
