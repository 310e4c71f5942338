//! Summary at the end of `up`.

use serde_json::{Map, Value, json};
use talmox_engine::kube::NodeFacts;
use talmox_model::Node;
use talmox_plan::observed::Observed;
use talmox_plan::plan::{Left, Plan, show};
use talmox_plan::planning::{locations, locations_after, may_lead_around};

use crate::args::Format;
use crate::choose::ClientPaths;
use crate::command::Outcome;
use crate::command::output::{self, Facts};
use crate::error::Exit;
use crate::printer::Printer;
use crate::report::Tally;
use crate::session::Session;
use crate::words::{self, plural};

/// Prints the result of a run without steps.
pub(super) async fn nothing_to_do(
    session: &Session,
    observed: &Observed,
    plan: &Plan,
    printer: &Printer,
) -> Outcome {
    match printer.format {
        Format::Json => {
            let places = locations(&session.desired, &observed.pve);
            let facts = Facts::look(session, &places, Some(&observed.pve)).await;
            facts.warn(None, printer);
            let result = json!({"cluster": session.desired.cluster, "changed": false,
                "nodes": facts.nodes, "left": show::left(plan)});
            printer.result(&format!("{result}\n"))?;
        }
        Format::Text => printer.result(&idle(plan))?,
    }
    Ok(exit(plan))
}

/// Result text of a run without steps.
fn idle(plan: &Plan) -> String {
    let is_any = |left: Left| plan.open_changes().any(|change| change.left == Some(left));
    let text = if plan.is_partial() {
        return format!("Nothing was changed.\n{}", left_text(plan));
    } else if is_any(Left::NotSelected) {
        "Nothing to do within the limits of --node and --only."
    } else if is_any(Left::Ignored) {
        "Nothing to do: the cluster matches the inventory, except for ignored differences."
    } else {
        "Nothing to do: the cluster matches the inventory."
    };
    format!("{text}\n")
}

/// Text about the changes that the plan left, with the reasons. Empty if the plan left no change.
fn left_text(plan: &Plan) -> String {
    let lines: String = show::left(plan).iter().map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { lines } else { format!("Left as it is:\n{lines}") }
}

fn exit(plan: &Plan) -> Exit {
    if plan.is_partial() { Exit::Partial } else { Exit::Fine }
}

/// Result of a successful run.
pub(super) struct RunSuccess {
    /// Whether the run changed more than local files.
    pub(super) is_change: bool,
    pub(super) tally: Tally,
    /// Messages about the client files.
    pub(super) messages: Vec<String>,
    /// Paths of kubeconfig and talosconfig; `None` for a lab that ends with this process.
    pub(super) files: Option<ClientPaths>,
    /// Arguments that select the same cluster in another command.
    pub(super) again: String,
}

/// Prints the nodes, the state of the cluster, the client files and the next steps.
pub(super) async fn done(
    session: &Session,
    observed: &Observed,
    plan: &Plan,
    end: &RunSuccess,
    printer: &Printer,
) -> Outcome {
    let desired = &session.desired;
    let facts = if end.is_change || printer.format == Format::Json {
        let facts =
            Facts::look(session, &locations_after(desired, &observed.pve, plan), None).await;
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
            "left": show::left(plan),
        });
        printer.result(&format!("{result}\n"))?;
        return Ok(exit(plan));
    }
    printer.say("");
    let mut text = String::new();
    if let Some(facts) = facts {
        text.push_str(&format!("{}\n", output::table(&facts, printer.result_columns())));
        for line in cluster_state(session, &facts, &end.again).await {
            text.push_str(&format!("{line}\n"));
        }
    }
    for line in &end.messages {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&left_text(plan));
    text.push_str(&next(session, end));
    printer.result(&text)?;
    Ok(exit(plan))
}

/// Lines about the state of the cluster: readiness, versions and the address of the Kubernetes API.
async fn cluster_state(session: &Session, facts: &Map<String, Value>, again: &str) -> Vec<String> {
    let desired = &session.desired;
    let talos: Vec<&str> =
        desired.nodes.iter().filter(|node| node.is_talos).map(|node| node.name.as_str()).collect();
    let ubuntu = desired.nodes.len() - talos.len();
    let mut lines = vec![];
    if !talos.is_empty() {
        lines.push(format!(
            "{}: Kubernetes {} on Talos {}.",
            readiness(session, &talos).await,
            output::versions(facts, output::KUBERNETES),
            output::versions(facts, output::TALOS),
        ));
        lines.extend(api_address(session, again).await);
    }
    if ubuntu > 0 {
        let verb = if ubuntu == 1 { "runs" } else { "run" };
        lines.push(format!("{} {verb} Ubuntu.", plural(ubuntu, "node")));
    }
    lines
}

/// Line about the address of the Kubernetes API.
async fn api_address(session: &Session, again: &str) -> Option<String> {
    let desired = &session.desired;
    let endpoint = desired.endpoint.as_ref()?;
    let first = desired.control_planes().next();
    // A lab that ends with this process cannot be checked again, so the hint is omitted.
    let next = if session.is_own_lab() {
        String::new()
    } else {
        format!(" Run `talmox up{again}` to check again.")
    };
    Some(match (endpoint_answers(session).await, first) {
        (Some(false), Some(first)) => format!(
            "The Kubernetes API answers only on the control planes, such as {}: {endpoint} does not answer yet.{next}",
            first.name
        ),
        _ => format!("The Kubernetes API is at {endpoint}."),
    })
}

/// Whether the shared address answers. `None` if the run has already checked the address, or if talmox does not manage
/// the endpoint.
async fn endpoint_answers(session: &Session) -> Option<bool> {
    if !may_lead_around(&session.desired) {
        return None;
    }
    session.shared_address_answers().await
}

/// Text about the readiness of the nodes, as Kubernetes reports it now. A run that is limited to nodes or parts does not wait for the
/// nodes, so the end of the run does not show that they are ready.
async fn readiness(session: &Session, nodes: &[&str]) -> String {
    let known = match session.kube() {
        Ok(kube) => kube.nodes().await.ok(),
        Err(_) => None,
    };
    let waiting = match &session.desired.cni_managed_by {
        // Without a CNI, nodes become ready only with a network add-on.
        None if session.desired.has_cni => "NotReady".to_owned(),
        None => "registered, NotReady: CNI missing".to_owned(),
        Some(manager) => format!("registered, NotReady: the CNI is managed by {manager}"),
    };
    readiness_text(nodes, known.as_deref(), session.desired.has_cni, &waiting)
}

/// Text about the nodes that Kubernetes lists. `known` is `None` if Kubernetes did not answer. `waiting` is the text for nodes that
/// are not ready.
fn readiness_text(
    nodes: &[&str],
    known: Option<&[NodeFacts]>,
    has_cni: bool,
    waiting: &str,
) -> String {
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    let all = plural(nodes.len(), "node");
    let Some(known) = known else {
        return format!("Kubernetes did not report whether {all} {} Ready", are(nodes.len()));
    };
    let own: Vec<&NodeFacts> =
        known.iter().filter(|node| nodes.contains(&node.name.as_str())).collect();
    let ready = own.iter().filter(|node| node.is_ready).count();
    let unready = own.len() - ready;
    let of = |count: usize| {
        if count == nodes.len() { all.clone() } else { format!("{count} of {all}") }
    };
    let mut parts = vec![];
    if ready > 0 && (has_cni || unready == 0) {
        parts.push(format!("{} {} Ready", of(ready), are(ready)));
    }
    if unready > 0 {
        parts.push(format!("{} {} {waiting}", of(unready), are(unready)));
    }
    let missing = nodes.len() - own.len();
    if missing > 0 {
        parts.push(format!("{} {} not registered", of(missing), are(missing)));
    }
    parts.join(", ")
}

fn next(session: &Session, end: &RunSuccess) -> String {
    let again = &end.again;
    if session.is_own_lab() && end.files.is_none() {
        let mut rows = vec![[
            format!("talmox up --lab --keep{again}"),
            "keeps the lab running, for other tools".to_owned(),
        ]];
        rows.push(if session.is_quickstart() {
            ["talmox init".to_owned(), "writes your own inventory".to_owned()]
        } else {
            let checks = "runs the preflight checks on the real Proxmox".to_owned();
            [format!("talmox check --live{again}"), checks]
        });
        rows.push([format!("talmox up{again}"), "creates the real cluster".to_owned()]);
        let head = "This was a lab run: the lab and its cluster end with this command.";
        return format!("{head} Next:\n\n{}", indented(&words::aligned(&rows)));
    }
    let mut lines = vec![];
    let has_talos = session.desired.nodes.iter().any(|node| node.is_talos);
    if let Some(paths) = end.files.as_ref().filter(|_| has_talos) {
        let path = &paths.kubeconfig;
        lines.push(format!("export KUBECONFIG={}", words::quoted(&path.display().to_string())));
        lines.push("kubectl get nodes".to_owned());
    }
    // A lab has no SSH servers.
    if session.lab.is_none() {
        lines.extend(ssh(session));
    }
    // Other talmox commands cannot use a lab that runs inside this process.
    lines.push(match (session.is_own_lab(), has_talos) {
        (true, true) => "kubectl get pods --all-namespaces".to_owned(),
        (true, false) => format!("talmox up{again}"),
        (false, _) => format!("talmox status{again}"),
    });
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("\nNext:\n\n{}", indented(&lines))
}

/// SSH command for the first node that does not run Talos. `None` if all nodes run Talos.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, is_ready: bool) -> NodeFacts {
        NodeFacts { name: name.to_owned(), is_ready, ..NodeFacts::default() }
    }

    #[test]
    fn the_text_states_what_kubernetes_reports() {
        let names = ["cp-1", "wk-1"];
        let text = |known: Option<&[NodeFacts]>, has_cni: bool| {
            let waiting = if has_cni { "NotReady" } else { "registered, NotReady: CNI missing" };
            readiness_text(&names, known, has_cni, waiting)
        };
        let (cp, wk) = (node("cp-1", true), node("wk-1", true));
        let both = [cp.clone(), wk, node("other", false)];
        assert_eq!(text(Some(&both), true), "2 nodes are Ready");
        let one = [cp.clone(), node("wk-1", false)];
        assert_eq!(text(Some(&one), true), "1 of 2 nodes is Ready, 1 of 2 nodes is NotReady");
        let waiting = "1 of 2 nodes is registered, NotReady: CNI missing";
        assert_eq!(text(Some(&one), false), waiting);
        assert_eq!(
            text(Some(&[cp]), true),
            "1 of 2 nodes is Ready, 1 of 2 nodes is not registered"
        );
        assert_eq!(text(None, true), "Kubernetes did not report whether 2 nodes are Ready");
    }
}
