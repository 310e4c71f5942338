//! `talmox init --role`: commands that create a Proxmox token with minimal permissions.

use serde_json::json;
use talmox_model::Node;
use talmox_model::value::SecretRef;
use talmox_plan::desired::Login;
use talmox_plan::rights::Grants;

use crate::args::{Format, Global};
use crate::choose;
use crate::command::Outcome;
use crate::error::Exit;
use crate::printer::Printer;

const USER: &str = "talmox@pve";
const TOKEN: &str = "talmox";

pub(super) fn run(cluster: Option<&str>, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, cluster, printer)?;
    let cluster = chosen.cluster();
    let login = Login { user: USER.to_owned(), token: Some(TOKEN.to_owned()) };
    let lines = Grants::of(cluster).lines_for_new(&login);
    match printer.format {
        Format::Json => printer.result(&format!("{:#}\n", json!({"commands": lines})))?,
        Format::Text => {
            printer.result(&format!("{}\n", lines.join("\n")))?;
            printer.say(&format!(
                "\nRun these commands as root on a Proxmox host; they can be repeated. The last command prints the token, which\n\
                 Proxmox shows only once. {}\n\
                 An existing token is not shown again: delete it first with\n\
                 `pveum user token delete talmox@pve talmox`.",
                keeping(cluster.file.proxmox.token.get())
            ));
        }
    }
    let is_in_pool = |node: &Node| node.settings().placement.pool.is_given();
    if !cluster.nodes.iter().all(is_in_pool) {
        printer.say(
            "\nThe inventory names no pool, so these permissions cover all VMs. With\n\
            `proxmox: {pool: talmox}` they cover only the VMs of that pool.",
        );
    }
    Ok(Exit::Fine)
}

/// Instruction for storing the token where the inventory reads it.
fn keeping(token: Option<&SecretRef>) -> String {
    match token {
        Some(SecretRef::Env(name)) => format!(
            "The inventory reads it from the environment:\n\
             `export {name}='{USER}!{TOKEN}=…'`."
        ),
        Some(SecretRef::Secret(path)) => {
            format!("The inventory reads it from the secrets:\n`talmox secrets set {path}`.")
        }
        Some(SecretRef::Command(_)) => {
            "The inventory reads it from a command: put it\nwhere that command finds it.".to_owned()
        }
        Some(SecretRef::Clear(_)) => {
            "The inventory has a token in clear text: replace\nit with `token: {env: PROXMOX_TOKEN}`, and \
             `export PROXMOX_TOKEN=…`."
                .to_owned()
        }
        None => format!(
            "Add `proxmox: {{token: {{env: PROXMOX_TOKEN}}}}` to\nthe inventory, and \
             `export PROXMOX_TOKEN='{USER}!{TOKEN}=…'`."
        ),
    }
}
