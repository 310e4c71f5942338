//! What is said at the end of `up`.

use std::path::Path;

use serde_json::json;
use talmox_engine::observe::World;
use talmox_engine::plan::{future_locations, locations};

use crate::args::Format;
use crate::command::{Outcome, output};
use crate::error::Exit;
use crate::printer::Printer;
use crate::session::Session;

pub(super) fn nothing_to_do(session: &Session, world: &World, printer: &Printer) -> Outcome {
    match printer.format {
        Format::Json => {
            let result = json!({"cluster": session.desired.cluster, "changed": false,
                "nodes": output::facts(&session.desired, locations(&session.desired, &world.pve))});
            printer.result(&format!("{result}\n"))?;
        }
        Format::Text => printer.say("Nothing to do: everything is as the inventory says."),
    }
    Ok(Exit::Fine)
}

/// What was made, where the files are, and what comes next.
pub(super) fn done(
    session: &Session,
    world: &World,
    folder: Option<&Path>,
    printer: &Printer,
) -> Outcome {
    let places = future_locations(&session.desired, &world.pve);
    let facts = output::facts(&session.desired, places);
    if printer.format == Format::Json {
        let result = json!({"cluster": session.desired.cluster, "changed": true, "nodes": facts});
        printer.result(&format!("{result}\n"))?;
        return Ok(Exit::Fine);
    }
    printer.say("");
    printer.say_raw(&output::table(&facts));
    let has_talos = session.desired.nodes.iter().any(|node| node.is_talos);
    if !has_talos {
        return Ok(Exit::Fine);
    }
    let Some(folder) = folder else {
        printer.say("\nThat was a rehearsal: the lab ends here, and with it the cluster. Next:\n");
        printer.say("  talmox up --lab --keep     keeps it, for kubectl and others to look at");
        printer.say("  talmox init                writes an inventory of your own");
        printer.say("  talmox up                  makes it real");
        return Ok(Exit::Fine);
    };
    let (kubeconfig, talosconfig) = (folder.join("kubeconfig"), folder.join("talosconfig"));
    printer.say(&format!("\nwrote {} and {}", kubeconfig.display(), talosconfig.display()));
    printer.say("\nNext:\n");
    printer.say(&format!("  export KUBECONFIG={}", kubeconfig.display()));
    printer.say("  kubectl get nodes");
    // A lab of our own ends with us: nobody else can join it.
    printer.say(if session.is_alone() {
        "  kubectl get pods --all-namespaces"
    } else {
        "  talmox status, with the same --inventory and --lab-at if you gave them"
    });
    Ok(Exit::Fine)
}
