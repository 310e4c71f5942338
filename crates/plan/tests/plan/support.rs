//! Inventories and their desired state. All tests use one secrets bundle with a fixed cluster id, so MAC addresses and UUIDs
//! are the same in every run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use talmox_model::Severity;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_plan::desired::{Desired, Inputs, Login, Phase, needed_secrets};
use talmox_plan::observed::Observed;
use talmox_plan::plan::{self, Plan, show};
use talmox_plan::planning::{self, PlanOptions};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self, Bundle};
use talmox_talos_config::time::UnixTime;

fn bundle() -> Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    let made = BUNDLE.get_or_init(|| {
        let now = UnixTime::from_seconds(1_700_000_000);
        secrets::generate(now, &mut SystemRandomness::new()).unwrap()
    });
    made.clone()
}

/// All values of the secrets bundle.
pub(crate) fn secret_values() -> Vec<String> {
    let text = bundle().to_yaml();
    let values = text.expose().lines().filter_map(|line| line.split_once(": "));
    let values: Vec<String> =
        values.map(|(_, value)| value.trim_matches(['\'', '"']).to_owned()).collect();
    assert!(values.len() > 10, "{}", values.len());
    values
}

/// The tests use this boot way, unless an inventory sets another one. `unproven.rs` tests the default boot way.
const DEFAULTS: &str = "boot: cloudinit\n";

/// The desired state of an inventory, in a cluster with this id.
pub(crate) fn desired_of(text: &str, cluster_id: &str, login: Login) -> Desired {
    let path = PathBuf::from("cluster.yaml");
    let files = ClusterFiles {
        default_name: "test".to_owned(),
        defaults: Some(File {
            path: PathBuf::from("defaults.yaml"),
            content: Ok(DEFAULTS.as_bytes().to_vec()),
        }),
        cluster: Some(File { path, content: Ok(text.as_bytes().to_vec()) }),
        ..ClusterFiles::default()
    };
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    let errors: Vec<_> =
        inventory.diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let cluster = &inventory.clusters[0];
    let mut bundle = bundle();
    cluster_id.clone_into(&mut bundle.cluster.id);
    let secrets = needed_secrets(cluster)
        .into_iter()
        .map(|reference| (reference.span, SecretText::new("secret-of-a-test")))
        .collect();
    let inputs = Inputs {
        cluster,
        bundle: &bundle,
        secrets: &secrets,
        files: &BTreeMap::new(),
        phase: Phase::Final,
    };
    Desired::of(&inputs, &BTreeMap::new(), login).unwrap()
}

pub(crate) fn token() -> Login {
    Login { user: "talmox@pve".to_owned(), token: Some("ci".to_owned()) }
}

pub(crate) fn desired(text: &str) -> Desired {
    desired_of(text, "the id of the test's cluster", token())
}

/// An inventory without nodes.
pub(crate) const HEAD: &str = "
cluster_name: home
talos_version: v1.11.2
kubernetes_version: v1.34.1
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [1.1.1.1, 8.8.8.8], vip: 10.0.0.20}
proxmox: {endpoint: 'https://pve1:8006', node: pve1, pool: talos, vmid_range: 300-399}
";

/// Three control planes and two workers.
pub(crate) const HOME: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11, vmid: 300}
  - {name: cp-2, ip: 10.0.0.12, vmid: 301}
  - {name: cp-3, ip: 10.0.0.13, vmid: 302}
workers:
  - {name: wk-1, ip: 10.0.0.21}
  - {name: wk-2, ip: 10.0.0.22}
";

pub(crate) fn home() -> Desired {
    desired(&format!("{HEAD}{HOME}"))
}

/// The home cluster with the text `from` of its inventory replaced by `to`.
pub(crate) fn home_with(from: &str, to: &str) -> Desired {
    let text = format!("{HEAD}{HOME}");
    assert!(text.contains(from), "{from}");
    desired(&text.replace(from, to))
}

/// A cluster with one control plane that has these settings.
pub(crate) fn single(settings: &str) -> Desired {
    desired(&format!(
        "{HEAD}controlplane:\n  - {{name: cp-1, ip: 10.0.0.11, vmid: 300, {settings}}}\n"
    ))
}

pub(crate) fn plan(desired: &Desired, observed: &Observed) -> Plan {
    plan_with(
        desired,
        observed,
        PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false },
    )
}

/// The plan without the warning about configs that are sent to maintenance mode. Every plan of a new cluster with `boot:
/// cloudinit` has this warning, and most tests do not need it (see `unproven.rs`).
pub(crate) fn plan_with(desired: &Desired, observed: &Observed, options: PlanOptions) -> Plan {
    let mut plan = planning::plan(desired, observed, options);
    let is_it = |message: &str| message.contains("in maintenance mode, which cannot prove");
    plan.findings.retain(|finding| !is_it(&finding.message));
    plan
}

pub(crate) fn whole_plan(desired: &Desired, observed: &Observed) -> Plan {
    planning::plan(
        desired,
        observed,
        PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false },
    )
}

pub(crate) fn text(desired: &Desired, observed: &Observed) -> String {
    show::text(&plan(desired, observed))
}

pub(crate) fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.as_str()).collect()
}

pub(crate) fn errors(plan: &Plan) -> Vec<String> {
    plan.errors().map(|finding| format!("{}: {}", finding.subject, finding.message)).collect()
}

pub(crate) fn warnings(plan: &Plan) -> Vec<String> {
    let warnings = plan.findings.iter().filter(|it| it.severity == plan::Severity::Warning);
    warnings.map(|finding| format!("{}: {}", finding.subject, finding.message)).collect()
}
