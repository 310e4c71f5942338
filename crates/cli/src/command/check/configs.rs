//! Check for machine configs that Talos would reject. The configs are generated as by `plan`, but with temporary secrets.
//! References to secrets are not resolved, and no config is written or shown.

use std::collections::BTreeSet;
use std::path::Path;

use talmox_model::{Cluster, Code, Diagnostic, Inventory, Label, Severity, Sources, Span};
use talmox_plan::desired::{DeriveError, Inputs, Phase, Problem, Renderer, needed_secrets};
use talmox_talos_config::pki::{KeyKind, PkiError, PrivateKey};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, generate_with};

use crate::boundary::Boundary;
use crate::environment;
use crate::machine_config::{read_files_of, without_values};

/// Number of nodes above which only one node of each role and set of patches is checked. The configs of the other nodes
/// hardly differ, and generating a thousand configs would take too long.
const MOST_RENDERED: usize = 100;

/// Maximum number of nodes that are listed in a finding; further nodes are counted.
const MOST_NAMED: usize = 5;

const HINT: &str = "change the patch, or give it only to the nodes that it is for: `patches:` has `all`, \
                    `controlplane` and `workers`, and a node or class has its own";

/// Adds findings for configs that Talos would reject. Clusters with errors are not rendered.
pub(super) fn refuse_bad_configs(inventory: &mut Inventory, boundary: &Boundary) {
    if inventory.has_errors() {
        return;
    }
    let Ok(bundle) = temporary_bundle() else { return };
    let mut found = vec![];
    for cluster in inventory.clusters.iter().filter(|cluster| cluster.is_readable()) {
        found.extend(in_cluster(cluster, &inventory.sources, &bundle, boundary));
    }
    inventory.diagnostics.extend(found);
    inventory.diagnostics.sort_by_key(|found| found.primary.as_ref().map(|label| label.span));
}

/// Temporary secrets bundle. Its service account key has a type that is generated quickly.
fn temporary_bundle() -> Result<Bundle, PkiError> {
    let mut randomness = environment::Kernel;
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    generate_with(&key, environment::now(), &mut randomness)
}

/// Problem of a machine config, and the nodes whose configs have this problem.
struct NodeProblem {
    problem: Problem,
    nodes: Vec<String>,
}

fn in_cluster(
    cluster: &Cluster,
    sources: &Sources,
    bundle: &Bundle,
    boundary: &Boundary,
) -> Vec<Diagnostic> {
    // Another check reports files that cannot be read.
    let read = read_files_of(cluster, sources, Path::new("."), boundary);
    let Ok(files) = read else { return vec![] };
    let secrets = needed_secrets(cluster).into_iter();
    let secrets = secrets.map(|it| (it.span, SecretText::new("stand-in"))).collect();
    let inputs = Inputs { cluster, bundle, secrets: &secrets, files: &files, phase: Phase::Final };
    let mut found: Vec<NodeProblem> = vec![];
    let mut add = |problem: Problem, node: Option<&str>| {
        let at = found.iter().position(|known| known.problem == problem).unwrap_or_else(|| {
            found.push(NodeProblem { problem, nodes: vec![] });
            found.len() - 1
        });
        found[at].nodes.extend(node.map(str::to_owned));
    };
    match Renderer::new(&inputs) {
        Err(error) => problems(error).into_iter().for_each(|problem| add(problem, None)),
        Ok(renderer) => {
            let mut seen = BTreeSet::new();
            for (index, node) in cluster.nodes.iter().enumerate() {
                let patches: Vec<Span> = cluster.patches(node).map(|patch| patch.span).collect();
                let is_new = seen.insert((node.role.to_string(), patches));
                if index >= MOST_RENDERED && !is_new {
                    continue;
                }
                let rejected = renderer.node(node).err().map(problems).unwrap_or_default();
                for problem in rejected {
                    add(problem, Some(node.name.value.as_str()));
                }
            }
        }
    }
    found.into_iter().map(|found| diagnostic(cluster, found)).collect()
}

/// Problems that a failed derivation reports. Missing settings are not included, because other checks report them.
fn problems(error: DeriveError) -> Vec<Problem> {
    match error {
        DeriveError::Invalid(problems) => problems,
        DeriveError::Patch { span, source } => {
            let message = without_values(&source.to_string());
            vec![Problem { message, patch: Some(span) }]
        }
        _ => vec![],
    }
}

fn diagnostic(cluster: &Cluster, found: NodeProblem) -> Diagnostic {
    let NodeProblem { problem, nodes } = found;
    let whose = match nodes.len() {
        0 => format!("the cluster {}", cluster.name),
        count if count > MOST_NAMED => {
            format!("{} and {} more", nodes[..MOST_NAMED].join(", "), count - MOST_NAMED)
        }
        _ => nodes.join(", "),
    };
    Diagnostic {
        severity: Severity::Error,
        code: if problem.patch.is_some() { Code::BadPatch } else { Code::BadValue },
        message: format!("Talos rejects the config of {whose}: {}", problem.message),
        hint: problem.patch.map(|_| HINT.to_owned()),
        primary: problem.patch.map(|span| Label { span, text: String::new() }),
        related: vec![],
    }
}
