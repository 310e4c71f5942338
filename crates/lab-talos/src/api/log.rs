//! Logs of services, containers and the kernel.

use std::sync::Arc;

use talmox_lab_kube::object::{list, text};
use talmox_talos_api::proto::common::{ContainerDriver, Data};
use talmox_talos_api::proto::machine::{DmesgRequest, LogsRequest};
use talmox_talos_api::server::Status;
use tonic::codegen::BoxStream;

use super::Session;
use super::stream::{self, data};
use crate::talos_state::{Node, TalosState};

/// containerd namespace of Talos services. Pods are in the namespace `k8s.io`.
const SYSTEM: &str = "system";
const KUBERNETES: &str = "k8s.io";

pub(super) fn logs(
    session: &Arc<Session>,
    request: &LogsRequest,
) -> Result<BoxStream<Data>, Status> {
    let id = request.id.clone();
    // The kubelet is always a Talos service, even if the request names another namespace.
    if request.namespace == SYSTEM || id == "kubelet" {
        let missing = format!("log \"{id}\" was not registered");
        let lines = move |_: &TalosState, node: &Node| match (id.as_str(), node.services.get(&id)) {
            ("kernel", _) => Some(node.dmesg.clone()),
            (_, service) => service.map(|service| service.log.iter().cloned().collect()),
        };
        return tail_and_follow(session, request, lines, &missing);
    }
    if request.namespace.is_empty() {
        return Err(Status::invalid_argument("namespace can't be empty"));
    }
    let is_cri = request.driver == i32::from(ContainerDriver::Cri);
    if is_cri && request.namespace != KUBERNETES {
        return Err(Status::unknown("CRI inspector is supported only for K8s namespace"));
    }
    let missing = format!("container \"{id}\" not found");
    let container = Container::parse(&id);
    if container.name.is_empty()
        && session.look(|talos, node| container.pod(talos, node))?.is_some()
    {
        // The pause container of a pod writes no log.
        return Err(Status::unknown("no log available"));
    }
    tail_and_follow(session, request, move |talos, node| container.log(talos, node), &missing)
}

/// Answers with the requested number of last lines, followed by new lines.
fn tail_and_follow(
    session: &Arc<Session>,
    request: &LogsRequest,
    lines: impl Fn(&TalosState, &Node) -> Option<Vec<String>> + Send + 'static,
    missing: &str,
) -> Result<BoxStream<Data>, Status> {
    let Some(found) = session.look(&lines)? else { return Err(Status::unknown(missing)) };
    // A negative number selects all lines. Zero would select no lines.
    let wanted = usize::try_from(request.tail_lines).unwrap_or(usize::MAX);
    let skipped = found.len().saturating_sub(wanted);
    let past = found[skipped..].to_vec();
    Ok(follow(session, past, request.follow, lines, |line| format!("{line}\n")))
}

/// Container of a pod, parsed from `namespace/pod:name` or `namespace/pod:name:id`.
struct Container {
    namespace: String,
    pod: String,
    name: String,
    /// Start of the container id in the container runtime.
    id: String,
}

impl Container {
    fn parse(display: &str) -> Self {
        let (namespace, rest) = display.split_once('/').unwrap_or_default();
        let mut parts = rest.splitn(3, ':').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Self { namespace: namespace.to_owned(), pod: next(), name: next(), id: next() }
    }

    /// Pod of the container, if the pod runs on this node.
    fn pod(&self, talos: &TalosState, node: &Node) -> Option<Arc<serde_json::Value>> {
        let pod = talos.kubernetes_of(node)?.get("pods", &self.namespace, &self.pod)?;
        (text(&pod, "/spec/nodeName") == node.hostname()).then_some(pod)
    }

    /// Log lines of the container. The lab runs no images, so the log contains only the start of the container.
    fn log(&self, talos: &TalosState, node: &Node) -> Option<Vec<String>> {
        let pod = self.pod(talos, node)?;
        let statuses = list(&pod, "/status/containerStatuses").iter();
        let mut same = statuses.filter(|status| text(status, "/name") == self.name);
        let status = same.find(|status| text(status, "/containerID").contains(&self.id))?;
        let states = ["/state/running/startedAt", "/state/terminated/finishedAt"];
        let at = states.iter().map(|at| text(status, at)).find(|at| !at.is_empty())?;
        let image = text(status, "/image");
        Some(vec![format!("{at} stdout F the lab does not run the image {image}")])
    }
}

pub(super) fn dmesg(
    session: &Arc<Session>,
    request: DmesgRequest,
) -> Result<BoxStream<Data>, Status> {
    let found = session.node(|node| node.dmesg.clone())?;
    let past = if request.tail { vec![] } else { found };
    let lines = |_: &TalosState, node: &Node| Some(node.dmesg.clone());
    Ok(follow(session, past, request.follow, lines, |line| format!("{line}\n")))
}

/// Answers with the stored lines. With `follows`, new lines follow.
fn follow(
    session: &Arc<Session>,
    past: Vec<String>,
    follows: bool,
    lines: impl Fn(&TalosState, &Node) -> Option<Vec<String>> + Send + 'static,
    format_line: impl Fn(&str) -> String + Send + 'static,
) -> BoxStream<Data> {
    if !follows {
        return stream::all(past.iter().map(|line| data(format_line(line).as_bytes())).collect());
    }
    let mut known = session.look(&lines).ok().flatten().unwrap_or_default();
    let watcher = Arc::clone(session);
    stream::run(session, |sender| async move {
        for line in past {
            if sender.send(Ok(data(format_line(&line).as_bytes()))).await.is_err() {
                return;
            }
        }
        let mut state_changes = watcher.simulation.state_changes();
        loop {
            let Ok(Some(now)) = watcher.look(&lines) else { return };
            for line in new_lines(&known, &now) {
                if sender.send(Ok(data(format_line(line).as_bytes()))).await.is_err() {
                    return;
                }
            }
            known = now;
            if state_changes.changed().await.is_err() {
                return;
            }
        }
    })
}

/// Lines that were added since the last read. The log may have dropped old lines in the meantime.
fn new_lines<'a>(before: &[String], now: &'a [String]) -> &'a [String] {
    let begins = (0..=before.len()).find(|dropped| now.starts_with(&before[*dropped..]));
    &now[begins.map_or(0, |dropped| before.len() - dropped)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_are_found_in_a_log_that_dropped_old_ones() {
        let texts = |all: &str| all.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(new_lines(&texts("a b"), &texts("a b c")), texts("c"));
        assert_eq!(new_lines(&texts("a b"), &texts("b c d")), texts("c d"));
        assert_eq!(new_lines(&texts("a b"), &texts("x y")), texts("x y"));
        assert!(new_lines(&texts("a b"), &texts("a b")).is_empty());
    }
}
