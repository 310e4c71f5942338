//! What is said at the end of `up`.

use std::path::PathBuf;

use serde_json::json;
use talmox_engine::observe::World;
use talmox_engine::plan::{future_locations, locations};
use talmox_model::Node;

use crate::args::Format;
use crate::command::check::plural;
use crate::command::output;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::Session;
use crate::words;

pub(super) fn nothing_to_do(
    session: &Session,
    world: &World,
    printer: &Printer,
) -> Result<(), CommandError> {
    match printer.format {
        Format::Json => {
            let result = json!({"cluster": session.desired.cluster, "changed": false,
                "nodes": output::facts(&session.desired, locations(&session.desired, &world.pve))});
            printer.result(&format!("{result}\n"))?;
        }
        Format::Text => printer.say("Nothing to do: everything is as the inventory says."),
    }
    Ok(())
}

/// A run that went well.
pub(super) struct End {
    /// Whether more was done than to write files.
    pub(super) is_change: bool,
    /// What became of the client files.
    pub(super) told: Vec<String>,
    /// Nothing in a lab that ends here.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The arguments that name the cluster again.
    pub(super) again: String,
}

/// What was made, where the files are, and what comes next.
pub(super) fn done(
    session: &Session,
    world: &World,
    end: &End,
    printer: &Printer,
) -> Result<(), CommandError> {
    let places = future_locations(&session.desired, &world.pve);
    let facts = output::facts(&session.desired, places);
    if printer.format == Format::Json {
        let result = json!({
            "cluster": session.desired.cluster, "changed": end.is_change, "nodes": facts,
        });
        printer.result(&format!("{result}\n"))?;
        return Ok(());
    }
    printer.say("");
    if end.is_change {
        printer.say_raw(&output::table(&facts));
        printer.say("");
        for line in well(session) {
            printer.say(&line);
        }
    }
    for line in &end.told {
        printer.say(line);
    }
    printer.say_raw(&next(session, end));
    Ok(())
}

/// How the cluster is: the last step of the run has just seen it.
fn well(session: &Session) -> Vec<String> {
    let desired = &session.desired;
    let talos = desired.nodes.iter().filter(|node| node.is_talos).count();
    let ubuntu = desired.nodes.len() - talos;
    let mut lines = vec![];
    if talos > 0 {
        let is = if talos == 1 { "is" } else { "are" };
        let version = |version: &Option<String>| version.clone().unwrap_or_default();
        let state = if desired.has_cni || !desired.addons.is_empty() {
            "Ready"
        } else {
            "registered, and Ready once there is a CNI"
        };
        lines.push(format!(
            "{} {is} {state}: Kubernetes {} on Talos {}.",
            plural(talos, "node"),
            version(&desired.kubernetes_version),
            version(&desired.talos_version),
        ));
    }
    if ubuntu > 0 {
        let verb = if ubuntu == 1 { "runs" } else { "run" };
        lines.push(format!("{} {verb} Ubuntu.", plural(ubuntu, "node")));
    }
    lines
}

fn next(session: &Session, end: &End) -> String {
    let again = &end.again;
    if session.is_alone() && end.kubeconfig.is_none() {
        let mut rows = vec![[
            format!("talmox up --lab --keep{again}"),
            "keeps it, for others to look at".to_owned(),
        ]];
        rows.push(if session.is_quickstart() {
            ["talmox init".to_owned(), "writes an inventory of your own".to_owned()]
        } else {
            let looks = "looks at the real Proxmox".to_owned();
            [format!("talmox check --live{again}"), looks]
        });
        rows.push([format!("talmox up{again}"), "makes it real".to_owned()]);
        let head = "That was a rehearsal: the lab ends here, and the cluster with it.";
        return format!("{head} Next:\n\n{}", indented(&words::aligned(&rows)));
    }
    let mut lines = vec![];
    let has_talos = session.desired.nodes.iter().any(|node| node.is_talos);
    if let Some(path) = end.kubeconfig.as_ref().filter(|_| has_talos) {
        lines.push(format!("export KUBECONFIG={}", words::quoted(&path.display().to_string())));
        lines.push("kubectl get nodes".to_owned());
    }
    // Nobody listens for SSH in a lab.
    if session.stage.is_none() {
        lines.extend(ssh(session));
    }
    // A lab of our own ends with us: nobody else can join it.
    lines.push(match (session.is_alone(), has_talos) {
        (true, true) => "kubectl get pods --all-namespaces".to_owned(),
        (true, false) => format!("talmox up{again}"),
        (false, _) => format!("talmox status{again}"),
    });
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("\nNext:\n\n{}", indented(&lines))
}

/// How to get into a node that Talos does not run on: the first one stands for the others.
fn ssh(session: &Session) -> Option<String> {
    let mut nodes = session.chosen.cluster().nodes.iter().filter(|node| !node.is_talos());
    let node: &Node = nodes.next()?;
    let users = &node.settings().system.cloud_init.users;
    let user = users.values().find_map(|user| user.name.get()).map_or("ubuntu", String::as_str);
    Some(format!("ssh {user}@{}", node.contact()?))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
