//! `talmox node services`

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_talos_api::client::{Health, Service};
use talmox_talos_config::client::ClientRole;

use super::access::{AccessArgs, Target};
use super::block_on;
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::error::Exit;
use crate::printer::Printer;
use crate::words;

/// Show the services of a node and their state
#[derive(Debug, Args)]
pub(super) struct ServicesArgs {
    /// Node: a name in the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &ServicesArgs, global: &Global, printer: &Printer) -> Outcome {
    let target = Target::find(&args.node, &args.access, ClientRole::Reader, global, printer)?;
    let services = block_on(target.ask(async || target.client.services().await))?;
    let text = match printer.format {
        Format::Json => format!("{:#}\n", services.iter().map(to_json).collect::<Json>()),
        Format::Text => {
            let row = |one: &Service| {
                let health = health(one).to_owned();
                // Control characters could move the cursor of the terminal.
                let message = one.message.replace(char::is_control, " ");
                [one.id.clone(), one.state.clone(), health, message]
            };
            let headings = ["SERVICE", "STATE", "HEALTH", "LAST MESSAGE"].map(str::to_owned);
            let rows: Vec<_> = std::iter::once(headings).chain(services.iter().map(row)).collect();
            words::aligned(&rows)
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

fn health(service: &Service) -> &'static str {
    match service.health {
        Health::Unknown => "?",
        Health::Good => "good",
        Health::Bad => "bad",
    }
}

fn to_json(service: &Service) -> Json {
    let healthy = match service.health {
        Health::Unknown => Json::Null,
        Health::Good => true.into(),
        Health::Bad => false.into(),
    };
    json!({
        "id": service.id,
        "state": service.state,
        "healthy": healthy,
        "message": service.message,
    })
}
