//! `talmox render`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use talmox_model::Node;
use talmox_model::value::Role;
use talmox_plan::desired::{Inputs, Phase, Rendered, Renderer, needed_secrets};
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

use super::{Outcome, talosconfig as client};
use crate::args::{Format, Global};
use crate::choose::{self, Chosen};
use crate::error::{CommandError, Exit};
use crate::machine_config::{derive_error, read_files};
use crate::printer::Printer;
use crate::reference::Resolver;
use crate::rendered_folder::{DEFAULT_FOLDER, RenderedFolder};
use crate::words::plural;
use crate::{environment, secrets};

/// Remaining validity below which the talosconfig is renewed.
const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);
const YEAR: Duration = Duration::from_hours(365 * 24);

const AFTER_HELP: &str = "\
Examples:
  talmox render --output generated
  talmox render dev --phases";

/// Write the machine configs of a cluster
///
/// Writes NODE.yaml for every node, the schematics and a talosconfig to a folder. The output is reproducible; the
/// talosconfig is kept while it is valid. Files of removed nodes are deleted if talmox wrote them and they were not
/// changed.
///
/// For a cluster without secrets, it generates them, unless a VM, a client file, a run log or a rendered config shows
/// that the cluster exists.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RenderArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Folder to write to
    #[arg(long, short, value_name = "DIR", default_value = DEFAULT_FOLDER)]
    output: PathBuf,

    /// Write two sets of configs: phase1 with DHCP, phase2 with static addresses
    #[arg(long)]
    phases: bool,

    /// Generate secrets although Proxmox does not answer; only for a cluster that was never created
    #[arg(long)]
    new_cluster: bool,
}

pub(crate) fn run(args: &RenderArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.as_deref(), printer)?;
    say_warnings(&chosen, printer);
    let mut output = RenderedFolder::open(&args.output)?;
    let files = read_files(&chosen)?;
    let secrets = Resolver::new(&chosen, printer).by_place(&needed_secrets(chosen.cluster()))?;
    // New secrets are written after all configs are rendered and written under temporary names, so that a failed command
    // does not leave secrets without configs.
    let (bundle, draft) = if output.is_rendered() {
        // Rendered configs prove that the cluster had secrets, so no new secrets are generated.
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
    let staged = output.stage()?;
    if let Some(draft) = draft {
        draft.keep(&chosen, &bundle, printer)?;
    }
    let summary = staged.put()?;

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
        printer.warn(&format!("{path} belongs to a removed node, but was changed: not removed"));
    }
    for path in &summary.overwritten {
        printer.warn(&format!("{path} was changed by hand and has been overwritten"));
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

/// Prints a warning with the number of findings that `talmox check` reports.
fn say_warnings(chosen: &Chosen, printer: &Printer) {
    match chosen.inventory().diagnostics.len() {
        0 => {}
        count => printer.warn(&format!("`talmox check` reports {}", plural(count, "finding"))),
    }
}

/// Renders the configs of all nodes. Returns an error if the config of a node cannot be rendered.
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

/// Adds the talosconfig. A valid talosconfig is kept, because a new talosconfig would have another certificate.
fn add_talosconfig(
    output: &mut RenderedFolder,
    chosen: &Chosen,
    bundle: &Bundle,
    printer: &Printer,
) -> Result<(), CommandError> {
    const NAME: &str = "talosconfig";
    if chosen.talos_nodes().next().is_none() {
        return Ok(());
    }
    let request = client::TalosEndpoints::of(chosen, printer);
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
