//! What is said at the end of `up`.

use serde_json::{Map, Value, json};
use talmox_engine::kube::NodeFacts;
use talmox_model::Node;
use talmox_plan::observed::Observed;
use talmox_plan::planning::{future_locations, locations, may_lead_around};

use crate::args::Format;
use crate::choose::ClientPaths;
use crate::command::check::plural;
use crate::command::output::{self, Facts};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::report::Tally;
use crate::session::Session;
use crate::words;

pub(super) async fn nothing_to_do(
    session: &Session,
    world: &Observed,
    printer: &Printer,
) -> Result<(), CommandError> {
    match printer.format {
        Format::Json => {
            let places = locations(&session.desired, &world.pve);
            let facts = Facts::look(session, &places, Some(&world.pve)).await;
            facts.warn(None, printer);
            let result = json!({"cluster": session.desired.cluster, "changed": false,
                "nodes": facts.nodes});
            printer.result(&format!("{result}\n"))?;
        }
        Format::Text => {
            printer.result("Nothing to do: everything is as the inventory says.\n")?;
        }
    }
    Ok(())
}

/// A run that went well.
pub(super) struct End {
    /// Whether more was done than to write files.
    pub(super) is_change: bool,
    pub(super) tally: Tally,
    /// What became of the client files.
    pub(super) told: Vec<String>,
    /// Where kubeconfig and talosconfig are; nothing in a lab that ends here.
    pub(super) files: Option<ClientPaths>,
    /// The arguments that name the cluster again.
    pub(super) again: String,
}

/// What was made, where the files are, and what comes next.
pub(super) async fn done(
    session: &Session,
    world: &Observed,
    end: &End,
    printer: &Printer,
) -> Result<(), CommandError> {
    let desired = &session.desired;
    let facts = if end.is_change || printer.format == Format::Json {
        let facts = Facts::look(session, &future_locations(desired, &world.pve), None).await;
        facts.warn(None, printer);
        Some(facts.nodes)
    } else {
        None
    };
    if printer.format == Format::Json {
        let result = json!({
            "cluster": desired.cluster,
            "changed": end.is_change,
            "steps": {"done": end.tally.done, "already": end.tally.already},
            "endpoint": desired.endpoint,
            "endpoint_answers": endpoint_answers(session).await,
            "kubeconfig": end.files.as_ref().map(|paths| &paths.kubeconfig),
            "talosconfig": end.files.as_ref().map(|paths| &paths.talosconfig),
            "nodes": facts,
        });
        return printer.result(&format!("{result}\n"));
    }
    printer.say("");
    let mut text = String::new();
    if let Some(facts) = facts {
        text.push_str(&format!("{}\n", output::table(&facts, printer.result_columns())));
        for line in well(session, &facts, &end.again).await {
            text.push_str(&format!("{line}\n"));
        }
    }
    for line in &end.told {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&next(session, end));
    printer.result(&text)
}

/// How the cluster is: the last step of the run has just seen it.
async fn well(session: &Session, facts: &Map<String, Value>, again: &str) -> Vec<String> {
    let desired = &session.desired;
    let talos: Vec<&str> =
        desired.nodes.iter().filter(|node| node.is_talos).map(|node| node.name.as_str()).collect();
    let ubuntu = desired.nodes.len() - talos.len();
    let mut lines = vec![];
    if !talos.is_empty() {
        lines.push(format!(
            "{}: Kubernetes {} on Talos {}.",
            standing(session, &talos).await,
            output::versions(facts, output::KUBERNETES),
            output::versions(facts, output::TALOS),
        ));
        lines.extend(way_in(session, again).await);
    }
    if ubuntu > 0 {
        let verb = if ubuntu == 1 { "runs" } else { "run" };
        lines.push(format!("{} {verb} Ubuntu.", plural(ubuntu, "node")));
    }
    lines
}

/// Where the Kubernetes API is found, by what has just been seen.
async fn way_in(session: &Session, again: &str) -> Option<String> {
    let desired = &session.desired;
    let endpoint = desired.endpoint.as_ref()?;
    let first = desired.control_planes().next();
    // A lab that ends here cannot be looked at again.
    let next = if session.is_alone() {
        String::new()
    } else {
        format!(" `talmox up{again}` looks again.")
    };
    Some(match (endpoint_answers(session).await, first) {
        (Some(false), Some(first)) => format!(
            "The Kubernetes API is at the control planes alone, such as {}: {endpoint} does not answer yet.{next}",
            first.name
        ),
        _ => format!("The Kubernetes API is at {endpoint}."),
    })
}

/// Whether it is where the inventory says. Nothing where the run has seen to it, or nobody but people can tell.
async fn endpoint_answers(session: &Session) -> Option<bool> {
    if !may_lead_around(&session.desired) {
        return None;
    }
    session.shared_address_answers().await
}

/// Whether the nodes are ready. Where Talos brings a network for pods, that was waited for.
async fn standing(session: &Session, nodes: &[&str]) -> String {
    let unready = if session.desired.has_cni { 0 } else { unready(session, nodes).await };
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    let all = plural(nodes.len(), "node");
    let waiting = "registered, NotReady: CNI missing";
    match unready {
        0 => format!("{all} {} Ready", are(nodes.len())),
        some if some == nodes.len() => format!("{all} {} {waiting}", are(some)),
        some => format!("{some} of {all} {} {waiting}", are(some)),
    }
}

/// How many nodes are not. One that cannot be asked now was well a moment ago.
async fn unready(session: &Session, nodes: &[&str]) -> usize {
    let Ok(kube) = session.kube() else { return 0 };
    let known = kube.nodes().await.unwrap_or_default();
    let is_ours = |node: &&NodeFacts| nodes.contains(&node.name.as_str());
    known.iter().filter(is_ours).filter(|node| !node.is_ready).count()
}

fn next(session: &Session, end: &End) -> String {
    let again = &end.again;
    if session.is_alone() && end.files.is_none() {
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
    if let Some(paths) = end.files.as_ref().filter(|_| has_talos) {
        let path = &paths.kubeconfig;
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
