//! `talmox etcd alarms`

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_plan::plan::Plan;
use talmox_plan::planning;
use talmox_talos_api::client::Alarm;

use super::ClusterArgs;
use super::cluster_view::{ClusterView, id, open};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command::plan_command::{PlanCommand, writes_nothing};
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::session::Session;
use crate::{confirm, runtime, words};

/// Show the alarms of etcd, or clear them
///
/// A member whose database is full raises the alarm NOSPACE, and etcd rejects writes until it is cleared. Free space
/// first, for example with `talmox etcd defrag`: etcd raises an alarm again whose cause remains.
#[derive(Debug, Args)]
pub(super) struct AlarmsArgs {
    /// Clear all alarms
    #[arg(long)]
    disarm: bool,

    /// Do not ask for confirmation (with --disarm)
    #[arg(long, short, requires = "disarm")]
    yes: bool,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &AlarmsArgs, global: &Global, printer: &Printer) -> Outcome {
    runtime::run(async {
        let session = open(&args.cluster, global, printer).await?;
        let ended = alarms(args, &session, printer).await;
        session.close().await?;
        ended
    })
}

async fn alarms(args: &AlarmsArgs, session: &Session, printer: &Printer) -> Outcome {
    if !args.disarm {
        let view = ClusterView::read(session, printer).await?;
        print(&view, &session.desired.cluster, printer)?;
        return Ok(Exit::Fine);
    }
    let is_asked = !args.yes && !session.is_own_lab();
    let ask = |_: &Plan| {
        if is_asked { confirm::require_yes("Execute this plan?") } else { Ok(()) }
    };
    let plan_of = async || plan_of(session, printer).await;
    let nothing = "etcd has no active alarms";
    let command = PlanCommand { name: "etcd alarms", nothing, write: writes_nothing() };
    command.run(session, plan_of, ask, printer).await
}

async fn plan_of(session: &Session, printer: &Printer) -> Result<Plan, CommandError> {
    let view = ClusterView::read(session, printer).await?;
    if view.alarms().is_empty() {
        let cluster = session.desired.cluster.clone();
        return Ok(Plan { cluster, changes: vec![], findings: vec![], steps: vec![] });
    }
    let observed = session.observe().await?;
    Ok(planning::disarm_alarms(&session.desired, &observed))
}

fn print(view: &ClusterView, cluster: &str, printer: &Printer) -> Result<(), CommandError> {
    let alarms = view.alarms();
    if printer.format == Format::Json {
        let alarms: Vec<Json> = alarms
            .iter()
            .map(|(member, alarm)| {
                json!({"member": id(*member), "name": view.name_of(*member), "alarm": name(*alarm)})
            })
            .collect();
        return printer.result(&format!("{:#}\n", json!({"cluster": cluster, "alarms": alarms})));
    }
    if alarms.is_empty() {
        return printer.result("etcd has no active alarms.\n");
    }
    let headings = ["ID", "NAME", "ALARM"].map(str::to_owned);
    let rows = alarms
        .iter()
        .map(|(member, alarm)| [id(*member), view.name_of(*member), alarm.to_string()]);
    let rows: Vec<[String; 3]> = std::iter::once(headings).chain(rows).collect();
    printer.result(&words::aligned(&rows))
}

/// Name of an alarm in JSON.
fn name(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::NoSpace => "nospace",
        Alarm::Corrupt => "corrupt",
        Alarm::Other => "unknown",
    }
}
