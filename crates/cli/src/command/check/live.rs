//! `talmox check --live`: what would stop `up` halfway, in one report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use talmox_engine::factory;
use talmox_engine::plan::{self, Plan, Severity, show};
use talmox_model::Cluster;

use super::plural;
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::runtime;
use crate::session::{NoSecrets, Session};

pub(super) fn run(
    clusters: &[String],
    rehearsal: &RehearsalArgs,
    global: &Global,
    printer: &Printer,
) -> Outcome {
    let name = match clusters {
        [] => None,
        [name] => Some(name.as_str()),
        _ => {
            return Err(CommandError::usage("--live looks at one cluster at a time")
                .hint("name one of them"));
        }
    };
    runtime::run(async {
        let session =
            Session::open_with(global, name, rehearsal, printer, NoSecrets::Pretend).await?;
        let reported = report(&session, printer).await;
        session.close().await?;
        reported
    })
}

async fn report(session: &Session, printer: &Printer) -> Outcome {
    let (world, factories) = tokio::join!(session.observe(), factories(session));
    let world = world?;
    let mut plan = plan::plan(&session.desired, &world, session.options());
    plan.findings.extend(factories);
    let errors = plan.errors().count();
    match printer.format {
        Format::Json => {
            let version = world.pve.version.as_ref().map(|version| version.version.clone());
            let told = json!({
                "ok": errors == 0,
                "cluster": plan.cluster,
                "proxmox_version": version,
                "findings": plan.findings,
            });
            printer.result(&format!("{told:#}\n"))?;
        }
        Format::Text => {
            printer.say_raw(&show::findings(&plan));
            printer.result(&summary(session, &plan, errors))?;
        }
    }
    Ok(if errors > 0 { Exit::Failed } else { Exit::Fine })
}

fn summary(session: &Session, plan: &Plan, errors: usize) -> String {
    let warnings = plan.findings.len() - errors;
    let found = match (errors, warnings) {
        (0, 0) => "nothing stands in the way".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (errors, 0) => plural(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"))
        }
    };
    format!("{}: {found}\n", session.desired.cluster)
}

/// Whether the factories answer, and have the extensions that are asked of them.
async fn factories(session: &Session) -> Vec<plan::Finding> {
    let mut findings = vec![];
    let Some(talos) = &session.desired.talos_version else { return findings };
    for (url, wanted) in wanted(session.chosen.cluster()) {
        let finding = |message: String, hint: &str| plan::Finding {
            severity: Severity::Error,
            subject: url.clone(),
            message,
            hint: Some(hint.to_owned()),
        };
        match factory::extensions(&session.web, &url, talos).await {
            Err(error) => findings.push(finding(
                format!("the Image Factory cannot be asked: {error}"),
                "is `image.factory` right, and is there a way to it?",
            )),
            Ok(known) => {
                let is_known = |name: &str| known.iter().any(|one| one.name == name);
                findings.extend(wanted.iter().filter(|name| !is_known(name)).map(|name| {
                    finding(
                        format!("there is no extension {name} for Talos {talos}"),
                        "correct `image.extensions`",
                    )
                }));
            }
        }
    }
    findings
}

/// The extensions that are asked of each factory.
fn wanted(cluster: &Cluster) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|node| node.is_talos()) {
        let image = &node.settings().system.image;
        // Who names a schematic knows what is in it.
        if image.schematic.is_given() {
            continue;
        }
        let factory = image.factory.required().to_string();
        let extensions = image.extensions.values().map(ToString::to_string);
        all.entry(factory.trim_end_matches('/').to_owned()).or_default().extend(extensions);
    }
    all
}
