//! `talmox node logs` and `talmox node dmesg`

use clap::Args;
use talmox_talos_api::TalosError;
use talmox_talos_api::client::{Bytes, LogSource};
use talmox_talos_config::client::ClientRole;

use super::access::{AccessArgs, Target};
use super::block_on;
use crate::args::Global;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

/// Print the log of a service: etcd, kubelet, apid…
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Node: a name in the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// Name of the service; `talmox node services NODE` lists them
    #[arg(value_name = "SERVICE")]
    service: String,

    /// Number of lines from the end of the log
    #[arg(long, value_name = "LINES")]
    tail: Option<u16>,

    /// Print new lines as they arrive
    #[arg(long, short)]
    follow: bool,

    /// SERVICE is a Kubernetes container, such as kube-system/coredns-abc:coredns
    #[arg(long, short)]
    kubernetes: bool,

    #[command(flatten)]
    access: AccessArgs,
}

/// Print the kernel log of a node
#[derive(Debug, Args)]
pub(super) struct DmesgArgs {
    /// Node: a name in the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// Print new lines as they arrive
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &LogsArgs, global: &Global, printer: &Printer) -> Outcome {
    let target = Target::find(&args.node, &args.access, ClientRole::Reader, global, printer)?;
    let service = args.service.clone();
    let source =
        if args.kubernetes { LogSource::Container(service) } else { LogSource::Service(service) };
    block_on(async {
        let open = async || target.client.logs(&source, args.tail, args.follow).await;
        let log = target.call_with_retries(open).await;
        let hint = |error: &TalosError| missing_hint(error, args, &target);
        print(log, args.follow, &target, printer, hint).await
    })
}

pub(super) fn run_dmesg(args: &DmesgArgs, global: &Global, printer: &Printer) -> Outcome {
    let target = Target::find(&args.node, &args.access, ClientRole::Reader, global, printer)?;
    block_on(async {
        let log = target.call_with_retries(async || target.client.dmesg(args.follow).await).await;
        print(log, args.follow, &target, printer, |_| None).await
    })
}

/// Prints a log stream until the stream ends or stdout is closed. `hint` returns hints for specific errors.
async fn print(
    log: Result<Bytes, TalosError>,
    is_followed: bool,
    target: &Target,
    printer: &Printer,
    hint: impl Fn(&TalosError) -> Option<String>,
) -> Outcome {
    let failed = async |error: TalosError| match hint(&error) {
        Some(hint) => CommandError::failed(CommandCode::NodeFailed, target.name.clone())
            .because(error)
            .hint(hint),
        None => target.explain(error).await,
    };
    let mut log = match log {
        Ok(log) => log,
        Err(error) => return Err(failed(error).await),
    };
    let mut printed = printer.log();
    loop {
        let piece = if is_followed { log.next().await } else { log.next_in_time().await };
        match piece {
            Ok(None) => {
                printed.end()?;
                return Ok(Exit::Fine);
            }
            Ok(Some(bytes)) => {
                if !printed.piece(&bytes)? {
                    return Ok(Exit::Fine);
                }
            }
            Err(error) => return Err(failed(error).await),
        }
    }
}

/// Hint for an unknown service or container. The answer of the node has no specific error code in this case.
fn missing_hint(error: &TalosError, args: &LogsArgs, target: &Target) -> Option<String> {
    let TalosError::No { message, .. } = error else { return None };
    if args.kubernetes && message.contains("not found") {
        return Some(
            "it is named NAMESPACE/POD:CONTAINER, and its pod must run on this node: \
             `kubectl get pods -A -o wide` lists the pods"
                .to_owned(),
        );
    }
    let is_missing = message.contains("was not registered");
    is_missing.then(|| format!("{} lists the services", target.command("services", "")))
}
