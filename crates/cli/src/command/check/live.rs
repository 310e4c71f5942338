//! `talmox check --live`: what would stop `up` halfway, in one report.

use serde_json::json;
use talmox_plan::plan::{Plan, show};
use talmox_plan::planning;

use super::plural;
use crate::args::{Format, Global};
use crate::command::{Outcome, look_at_each};
use crate::error::Exit;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::{choose, runtime};

pub(super) fn run(
    clusters: &[String],
    rehearsal: &RehearsalArgs,
    global: &Global,
    printer: &Printer,
) -> Outcome {
    let clusters = choose::each(global, clusters)?;
    look_at_each(&clusters, printer, |cluster| {
        runtime::run(async {
            let session =
                Session::open_with(global, cluster, rehearsal, printer, NoSecrets::Pretend).await?;
            let reported = report(&session, printer).await;
            session.close().await?;
            reported
        })
    })
}

async fn report(session: &Session, printer: &Printer) -> Outcome {
    let world = session.observe().await?;
    let plan = planning::plan(&session.desired, &world, session.options(&world));
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
            printer.result(&summary(session, &plan))?;
        }
    }
    Ok(if errors > 0 { Exit::Failed } else { Exit::Fine })
}

fn summary(session: &Session, plan: &Plan) -> String {
    let found = match show::count_findings(plan) {
        (0, 0) => "nothing stands in the way".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (errors, 0) => plural(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"))
        }
    };
    format!("{}: {found}\n", session.desired.cluster)
}
