//! Plans and creates clusters in a lab that runs in another process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_engine::access::ClusterAccess;
use talmox_engine::event::{Event, Events, Stamped};
use talmox_engine::execute::{Cancel, execute};
use talmox_engine::kube::KubeClient;
use talmox_engine::observe::{Purpose, Sources, TalosAccess, observe};
use talmox_engine::step::Context;
use talmox_engine::web::{Web, WebSettings};
use talmox_lab::Ready;
use talmox_model::Severity;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_plan::desired::{Contact, Desired, Inputs, Login, Phase};
use talmox_plan::plan::{Plan, StepId, show};
use talmox_plan::planning::{self, PlanOptions, Scope};
use talmox_pve::client::{self, Client, Credentials, Endpoint, Limits, Timeouts, Trust};
use talmox_talos_api::{
    Address, Credentials as TalosCredentials, Reach, Settings as TalosSettings,
};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::{self, Bundle};
use talmox_talos_config::time::UnixTime;

use crate::yard::TOKEN;

/// A cluster, and the settings of its clients.
pub(crate) struct Rig {
    ready: Ready,
    pub(crate) clock: Clock,
    pub(crate) bundle: Bundle,
    text: String,
}

impl Rig {
    pub(crate) fn new(ready: &Ready, inventory: String) -> Self {
        let now = UnixTime::from_seconds(1_700_000_000);
        let bundle = secrets::generate(now, &mut SystemRandomness::new()).unwrap();
        Self::known(ready, inventory, bundle)
    }

    /// A rig for a cluster whose secrets were generated before.
    pub(crate) fn known(ready: &Ready, inventory: String, bundle: Bundle) -> Self {
        let clock = Clock::scaled(ready.speed);
        Self { ready: ready.clone(), clock, bundle, text: inventory }
    }

    /// Replaces the inventory.
    pub(crate) fn edit(&mut self, inventory: String) {
        self.text = inventory;
    }

    pub(crate) fn client(&self) -> Client {
        let (host, port) = self.ready.pve.url["https://".len()..].rsplit_once(':').unwrap();
        let reach = Some(talmox_talos_api::Address::new(host, port.parse().unwrap()));
        Client::new(client::Settings {
            endpoints: vec![Endpoint { reach, ..Endpoint::new("pve1", 8006) }],
            trust: Trust::Authorities(std::fs::read(&self.ready.pve.ca).unwrap()),
            credentials: Credentials::Token(TOKEN.parse().unwrap()),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            clock: self.clock,
            seed: 0,
        })
        .unwrap()
    }

    fn access(&self) -> TalosAccess {
        let now = UnixTime::from_seconds(self.clock.unix().try_into().unwrap());
        let day = Duration::from_hours(24);
        let randomness = &mut SystemRandomness::new();
        let credentials =
            TalosCredentials::issue(&self.bundle, &[ClientRole::Admin], day, now, randomness)
                .unwrap();
        let mut settings = TalosSettings::new(self.clock);
        settings.reach = Reach::new(self.ready.reach.clone());
        TalosAccess { credentials, settings }
    }

    fn cluster(&self, desired: &Desired) -> ClusterAccess {
        let TalosAccess { credentials, settings } = self.access();
        let known = desired.control_planes().filter_map(|node| match node.contact {
            Contact::At(address) => Some(address),
            Contact::AskAgent => None,
        });
        let addresses = desired.vip.into_iter().chain(known);
        ClusterAccess {
            bundle: Arc::new(self.bundle.clone()),
            credentials,
            settings,
            api: addresses
                .map(|address| Address { host: address.to_string(), port: 6443 })
                .collect(),
            earlier: vec![],
            write_files: Arc::new(|_| Ok(())),
        }
    }

    /// The desired state of the inventory.
    pub(crate) fn desired(&self) -> Desired {
        let content = Ok(self.text.clone().into_bytes());
        let files = ClusterFiles {
            default_name: "bench".to_owned(),
            cluster: Some(File { path: PathBuf::from("cluster.yaml"), content }),
            ..ClusterFiles::default()
        };
        let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
        let found = inventory.diagnostics.iter();
        let errors: Vec<_> = found.filter(|one| one.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let inputs = Inputs {
            cluster: &inventory.clusters[0],
            bundle: &self.bundle,
            secrets: &BTreeMap::new(),
            files: &BTreeMap::new(),
            phase: Phase::Final,
        };
        let login = Login { user: "root@pam".to_owned(), token: Some("lab".to_owned()) };
        Desired::of(&inputs, &BTreeMap::new(), login).unwrap()
    }

    fn web(&self) -> Web {
        let reach = Reach::new(self.ready.reach.clone());
        let authorities = std::fs::read(&self.ready.pve.ca).unwrap();
        Web::new(WebSettings { reach, authorities }).unwrap()
    }

    /// Plans the cluster. `has_client_files` is true if the client files were written before.
    pub(crate) async fn plan(&self, desired: &Desired, has_client_files: bool) -> Plan {
        self.plan_within(desired, has_client_files, &Scope::default()).await
    }

    async fn plan_within(&self, desired: &Desired, has_client_files: bool, scope: &Scope) -> Plan {
        let (pve, talos, web) = (self.client(), self.access(), self.web());
        let cluster = self.cluster(desired);
        let randomness = &mut SystemRandomness::new();
        let kube = KubeClient::new(&cluster.bundle, &cluster.api, &cluster.settings, randomness);
        let kube = kube.unwrap();
        let sources =
            Sources { pve: &pve, talos: &talos, kube: &kube, web: &web, purpose: Purpose::Change };
        let observed = observe(desired, &sources).await.unwrap();
        let options =
            PlanOptions { has_client_files, was_up: has_client_files, was_bootstrapped: false };
        planning::plan_within(desired, &observed, options, scope)
    }

    /// Creates the cluster, as `talmox up` does. Returns the plan and the times at which the steps ended, in the order of
    /// these times.
    pub(crate) async fn up(&self) -> (Plan, Vec<(StepId, Duration)>) {
        let started = self.clock.since_epoch().as_secs_f64();
        let desired = self.desired();
        let plan = self.plan(&desired, false).await;
        let ends = self.execute(&desired, &plan).await;
        let ends =
            ends.into_iter().map(|(step, time)| (step, Duration::from_secs_f64(time - started)));
        let ends = ends.collect();
        (plan, ends)
    }

    /// Updates the cluster after an edit of its inventory, as `talmox up` does. Returns the plan.
    pub(crate) async fn change(&self, scope: &Scope) -> Plan {
        let desired = self.desired();
        let plan = self.plan_within(&desired, true, scope).await;
        self.execute(&desired, &plan).await;
        plan
    }

    /// Executes a plan. Returns the times at which the steps ended, in the order of these times, in seconds of lab time.
    async fn execute(&self, desired: &Desired, plan: &Plan) -> Vec<(StepId, f64)> {
        assert_eq!(plan.errors().count(), 0, "{}", show::text(plan));
        let context = Context {
            clock: self.clock,
            pve: self.client(),
            web: self.web(),
            cluster: Some(self.cluster(desired)),
            locks: vec![],
            seed: 7,
            cut: None,
        };
        let (events, mut heard) = Events::channel(self.clock);
        let outcome = execute(plan, &context, &Cancel::default(), &events).await;
        let failures: Vec<_> = outcome.failures().collect();
        assert!(outcome.is_done(), "{failures:#?}");
        let mut ends = vec![];
        while let Ok(Stamped { time, what }) = heard.try_recv() {
            if let Event::StepEnded { step, .. } = what {
                ends.push((StepId::new(step), time));
            }
        }
        ends
    }
}
