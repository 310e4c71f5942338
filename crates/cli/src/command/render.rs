//! `talmox render`

mod output;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use talmox_model::value::{Patch, Role};
use talmox_model::{Cluster, Node, Sources, Span};
use talmox_plan::desired::{
    DeriveError, Inputs, Phase, Rendered, Renderer, needed_files, needed_secrets,
};
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

use super::check::plural;
use super::{Outcome, talosconfig as client};
use crate::args::{Format, Global};
use crate::boundary::Boundary;
use crate::choose::{self, Chosen};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::reference::Resolver;
use crate::{environment, secrets};

pub(crate) use self::output::Output;

/// Where configs go unless somebody says otherwise.
pub(crate) const DEFAULT_FOLDER: &str = "generated";

/// A talosconfig that is valid for less is made anew.
const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);
const YEAR: Duration = Duration::from_hours(365 * 24);

const AFTER_HELP: &str = "\
Examples:
  talmox render --output generated
  talmox render dev --phases";

/// Write the machine configs of a cluster
///
/// Writes NODE.yaml for every node, the schematics and a talosconfig into a folder. The same
/// inventory gives the same bytes; the talosconfig is kept while it is good. Files of nodes that
/// left are removed if talmox wrote them and nobody changed them since.
///
/// A cluster without secrets gets them, unless a VM, a client file, a run log or a rendered config shows that it exists.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RenderArgs {
    /// The cluster [default: the only one of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// The folder to write to
    #[arg(long, short, value_name = "DIR", default_value = DEFAULT_FOLDER)]
    output: PathBuf,

    /// Write two sets of configs: phase1 takes addresses from DHCP, phase2 has static ones
    #[arg(long)]
    phases: bool,

    /// The cluster has never been created: make its secrets although Proxmox cannot be asked
    #[arg(long)]
    new_cluster: bool,
}

pub(crate) fn run(args: &RenderArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    say_warnings(&chosen, printer);
    let mut output = Output::open(&args.output)?;
    let files = read_files(&chosen)?;
    let secrets = Resolver::new(&chosen, printer).by_place(&needed_secrets(chosen.cluster()))?;
    // Secrets of a first run are written once everything is rendered: a run that fails leaves none behind.
    let (bundle, draft) = if output.is_rendered() {
        // Configs that exist were made of secrets that exist: they are never generated again.
        (secrets::bundle_of(&chosen)?, None)
    } else {
        secrets::bundle_or_draft(&chosen, args.new_cluster, printer)?
    };
    output.claim(&bundle.cluster.id)?;
    let mut warnings = vec![];
    let phases: &[(Phase, &str)] = if args.phases {
        &[(Phase::Dhcp, "phase1"), (Phase::Static, "phase2")]
    } else {
        &[(Phase::Final, "")]
    };
    for (phase, folder) in phases {
        let cluster = chosen.cluster();
        let inputs =
            Inputs { cluster, bundle: &bundle, secrets: &secrets, files: &files, phase: *phase };
        for (node, rendered) in render_all(&chosen, &inputs)? {
            output.add(&config_path(node, folder), &rendered.config);
            if let Some(schematic) = rendered.image.and_then(|image| image.schematic) {
                let path = format!("schematics/{}.yaml", schematic.id());
                output.add(&path, &SecretText::new(schematic.to_yaml()));
            }
            warnings.extend(
                rendered.warnings.iter().map(|text| format!("{}: {text}", node.name.value)),
            );
        }
    }
    add_talosconfig(&mut output, &chosen, &bundle, printer)?;
    output.refuse_foreign_files()?;
    if let Some(draft) = draft {
        draft.keep(&chosen, &bundle, printer)?;
    }
    let summary = output.write()?;

    warnings.sort();
    warnings.dedup();
    if printer.format == Format::Json {
        let result = json!({
            "folder": args.output.display().to_string(),
            "written": summary.written,
            "unchanged": summary.unchanged,
            "removed": summary.removed,
            "kept": summary.kept,
            "overwritten": summary.overwritten,
            "warnings": warnings,
        });
        printer.result(&format!("{result:#}\n"))?;
        return Ok(Exit::Fine);
    }
    for warning in &warnings {
        printer.warn(warning);
    }
    for path in &summary.kept {
        printer.warn(&format!("{path} is of no node any more, but was changed: not removed"));
    }
    for path in &summary.overwritten {
        printer.warn(&format!("{path} had been changed by hand: written anew"));
    }
    for path in &summary.removed {
        printer.say(&format!("removed {path}"));
    }
    printer.say(&format!(
        "{}: {} written, {} unchanged, {} removed",
        args.output.display(),
        summary.written.len(),
        summary.unchanged,
        summary.removed.len()
    ));
    Ok(Exit::Fine)
}

/// What `check` would say is not said twice, but not hidden either.
fn say_warnings(chosen: &Chosen, printer: &Printer) {
    match chosen.inventory().diagnostics.len() {
        0 => {}
        count => printer.warn(&format!("`talmox check` reports {}", plural(count, "finding"))),
    }
}

/// Nothing is written unless every node can be rendered.
fn render_all<'a>(
    chosen: &'a Chosen,
    inputs: &'a Inputs<'a>,
) -> Result<Vec<(&'a Node, Rendered)>, CommandError> {
    let failed = |error| derive_error(chosen, error);
    let renderer = Renderer::new(inputs).map_err(failed)?;
    let nodes = inputs.cluster.nodes.iter();
    nodes
        .map(|node| {
            let rendered = renderer.node(node).map_err(|error| failed(error.of(node)))?;
            Ok((node, rendered))
        })
        .collect()
}

/// What keeps a config from being made: of whom, by which patch, and what helps.
pub(crate) fn derive_error(chosen: &Chosen, error: DeriveError) -> CommandError {
    let (cluster, inventory) = (chosen.cluster(), chosen.inventory());
    let (whose, error) = match error {
        DeriveError::Node { node, source } => (format!("cannot render `{node}`"), *source),
        error => (format!("cannot render the cluster `{}`", cluster.name), error),
    };
    let place = |span: Span| inventory.sources.locate(span);
    let check = format!("`talmox check {}` shows all that Talos refuses", cluster.name);
    match error {
        DeriveError::Missing { hint, .. } => {
            CommandError::failed(CommandCode::ConfigInvalid, whose).because(error).hint(hint)
        }
        DeriveError::Unresolved { span } | DeriveError::Overlay { span } => {
            CommandError::failed(CommandCode::ConfigInvalid, whose)
                .because(error)
                .hint(format!("see {}", place(span)))
        }
        DeriveError::Patch { span, ref source } => {
            let problem = without_values(&source.to_string());
            let patch = patch_name(cluster, span);
            CommandError::failed(
                CommandCode::ConfigInvalid,
                format!("{whose}: {error} ({patch}): {problem}"),
            )
            .hint(format!("see {}; {check}", place(span)))
        }
        DeriveError::Invalid(problems) => {
            let told: Vec<String> = problems
                .iter()
                .map(|problem| match problem.patch {
                    Some(span) => format!("{} ({})", problem.message, patch_name(cluster, span)),
                    None => problem.message.clone(),
                })
                .collect();
            let mut places: Vec<String> =
                problems.iter().filter_map(|problem| problem.patch).map(place).collect();
            places.dedup();
            let see = if places.is_empty() {
                String::new()
            } else {
                format!("see {}; ", places.join(", "))
            };
            CommandError::failed(
                CommandCode::ConfigInvalid,
                format!("{whose}: Talos refuses the config: {}", told.join("; ")),
            )
            .hint(format!(
                "{see}{check}, and `talmox config validate --mode cloud FILE` judges a single \
                     config"
            ))
        }
        error => CommandError::failed(CommandCode::ConfigInvalid, whose).because(error),
    }
}

/// What people know a patch by.
fn patch_name(cluster: &Cluster, span: Span) -> String {
    let mut all = cluster.nodes.iter().flat_map(|node| cluster.patches(node));
    match all.find(|patch| patch.span == span).map(|patch| &patch.value) {
        Some(Patch::File(path)) => format!("the patch {}", path.0),
        _ => "a patch of the inventory".to_owned(),
    }
}

/// Talos shows the lines of a patch that it does not know; their values may be secret.
pub(super) fn without_values(text: &str) -> String {
    let mut lines = text.trim_end().lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let shown = match line.split_once(": ") {
            Some((key, _)) => format!("{key}: …"),
            None => line.to_owned(),
        };
        out.push('\n');
        out.push_str(&shown);
    }
    out
}

/// The texts of patches and overlays, as the inventory names them.
pub(crate) fn read_files(chosen: &Chosen) -> Result<BTreeMap<Span, String>, CommandError> {
    let (cluster, sources) = (chosen.cluster(), &chosen.inventory().sources);
    read_files_of(cluster, sources, chosen.folder(), chosen.boundary())
}

/// The same for any cluster. The folder is for names that stand in no file.
pub(super) fn read_files_of(
    cluster: &Cluster,
    sources: &Sources,
    folder: &Path,
    boundary: &Boundary,
) -> Result<BTreeMap<Span, String>, CommandError> {
    let mut files = BTreeMap::new();
    for (span, name) in needed_files(cluster) {
        let source = sources.get(span.source).path();
        let path = source.and_then(Path::parent).unwrap_or(folder).join(name);
        files.insert(span, boundary.read_text(&path)?);
    }
    Ok(files)
}

fn config_path(node: &Node, phase: &str) -> String {
    let name = &node.name.value;
    if phase.is_empty() {
        return format!("{name}.yaml");
    }
    let role = match node.role {
        Role::ControlPlane => "controlplanes",
        Role::Worker => "workers",
    };
    format!("{phase}/{role}/{name}.yaml")
}

/// Certificates are never the same twice, so one that is still good is kept.
fn add_talosconfig(
    output: &mut Output,
    chosen: &Chosen,
    bundle: &Bundle,
    printer: &Printer,
) -> Result<(), CommandError> {
    const NAME: &str = "talosconfig";
    if chosen.talos_nodes().next().is_none() {
        return Ok(());
    }
    let request = client::Access::of(chosen, printer);
    if let Some(existing) = output.existing(NAME)?
        && request.describes(existing.expose(), bundle)
        && is_good(&existing)
    {
        output.add(NAME, &existing);
        return Ok(());
    }
    let text = request.generate(bundle, &[ClientRole::Admin], YEAR, environment::now())?;
    output.add(NAME, &text);
    Ok(())
}

fn is_good(existing: &SecretText) -> bool {
    let now = environment::now();
    talosconfig::expiry(existing.expose()).is_ok_and(|contexts| {
        contexts.iter().all(|context| {
            let left = context.not_after.and_then(|end| end.remaining(now));
            left.is_some_and(|left| left > RENEW_BEFORE)
        })
    })
}
