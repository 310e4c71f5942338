//! `talmox check --live`: the preflight checks of `up`.

use serde_json::json;
use talmox_plan::plan::{Plan, show};
use talmox_plan::planning;

use crate::args::{Format, Global};
use crate::command::{Outcome, for_each_cluster};
use crate::error::Exit;
use crate::printer::Printer;
use crate::rehearsal::RehearsalArgs;
use crate::session::{NoSecrets, Session};
use crate::words::plural;
use crate::{choose, runtime};

pub(super) fn run(
    clusters: &[String],
    rehearsal: &RehearsalArgs,
    global: &Global,
    printer: &Printer,
) -> Outcome {
    let clusters = choose::each(global, clusters)?;
    for_each_cluster(&clusters, printer, |cluster| {
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
    session.refuse_existing_cluster().await?;
    let mut observed = session.observe().await?;
    session.observe_addresses(&mut observed).await;
    let plan = planning::plan(&session.desired, &observed, session.options(&observed));
    let errors = plan.errors().count();
    match printer.format {
        Format::Json => {
            let version = observed.pve.version.as_ref().map(|version| version.version.clone());
            let result = json!({
                "ok": errors == 0,
                "cluster": plan.cluster,
                "proxmox_version": version,
                "findings": plan.findings,
            });
            printer.result(&format!("{result:#}\n"))?;
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
        (0, 0) => "no problems; `talmox up` can start".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (errors, 0) => plural(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"))
        }
    };
    format!("{}: {found}\n", session.desired.cluster)
}
