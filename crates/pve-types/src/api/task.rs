//! Calls about tasks. They are sent to the node that the UPID names.

use serde_json::Value;

use crate::id::{NodeName, Upid, VmId};
use crate::request::Request;
use crate::wire::{Answer, Decode, Fields, Unreadable};

/// State of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    /// The task succeeded, possibly with warnings.
    Done {
        warnings: u32,
    },
    /// The task stopped, but its exit status is not written yet. The caller must read the state again.
    Undecided,
    Failed {
        exit: String,
    },
}

impl TaskState {
    /// State of an ended task with this exit status.
    pub fn of_exit(exit: &str) -> Self {
        match exit {
            "OK" => Self::Done { warnings: 0 },
            "" | "unexpected status" => Self::Undecided,
            text => match text.strip_prefix("WARNINGS: ").map(str::parse) {
                Some(Ok(warnings)) => Self::Done { warnings },
                _ => Self::Failed { exit: text.to_owned() },
            },
        }
    }
}

impl Decode for TaskState {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        if fields.need_text("status")? == "running" {
            return Ok(Self::Running);
        }
        Ok(Self::of_exit(fields.text("exitstatus").unwrap_or_default().trim()))
    }
}

pub fn status(upid: &Upid) -> Request<TaskState> {
    Request::get(&[&"nodes", upid.node(), &"tasks", upid, &"status"]).on(upid.node())
}

/// Part of a task log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    pub lines: Vec<String>,
    /// Total number of lines of the log.
    pub total: Option<u64>,
}

impl Decode for LogPart {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let line = |item: &Value| Fields::of(item).ok()?.text("t");
        let lines = data.as_array().into_iter().flatten().filter_map(line).collect();
        Ok(Self { lines, total: None })
    }

    fn decode_answer(answer: &Answer) -> Result<Self, Unreadable> {
        Ok(Self { total: answer.total, ..Self::decode(&answer.data)? })
    }
}

pub fn log(upid: &Upid, start: u64, limit: u64) -> Request<LogPart> {
    Request::get(&[&"nodes", upid.node(), &"tasks", upid, &"log"])
        .with("start", start)
        .with("limit", limit)
        .on(upid.node())
}

/// Stops a task. The exit status of the task then says that it was stopped.
pub fn stop(upid: &Upid) -> Request<()> {
    Request::delete(&[&"nodes", upid.node(), &"tasks", upid]).on(upid.node())
}

/// Task in a list of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    pub upid: Upid,
    pub state: TaskState,
    /// End time, in seconds since 1970.
    pub ended: Option<u64>,
}

impl Decode for TaskEntry {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let ended = fields.number("endtime");
        // In lists, `status` is the exit status. Running tasks have no `status`, or `RUNNING`.
        let state = match fields.text("status") {
            None if ended.is_none() => TaskState::Running,
            Some(text) if text == "running" || text == "RUNNING" => TaskState::Running,
            text => TaskState::of_exit(text.unwrap_or_default().trim()),
        };
        Ok(Self { upid: fields.need("upid")?, state, ended })
    }
}

/// Filter for the tasks of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub vmid: Option<VmId>,
    /// Task type, such as `qmcreate`.
    pub kind: Option<String>,
    /// Earliest start time, in seconds since 1970.
    pub since: Option<u64>,
    pub limit: Option<u32>,
}

/// Lists the running and ended tasks of a node that the caller may see. A caller may always see its own tasks.
pub fn list(node: &NodeName, filter: &Filter) -> Request<Vec<TaskEntry>> {
    Request::get(&[&"nodes", node, &"tasks"])
        .with("source", "all")
        .with_some("vmid", filter.vmid)
        .with_some("typefilter", filter.kind.as_ref())
        .with_some("since", filter.since)
        .with_some("limit", filter.limit)
        .on(node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UPID: &str = "UPID:pve2:0001A2B3:1234ABCDE:65F0C0DE:qmcreate:300:talmox@pve!ci:";

    #[test]
    fn task_requests_go_to_the_node_of_the_upid() {
        let upid: Upid = UPID.parse().unwrap();
        let escaped =
            "UPID%3Apve2%3A0001A2B3%3A1234ABCDE%3A65F0C0DE%3Aqmcreate%3A300%3Atalmox%40pve%21ci%3A";
        assert_eq!(status(&upid).path(), format!("/nodes/pve2/tasks/{escaped}/status"));
        let filter = Filter { vmid: Some(VmId::new(300).unwrap()), ..Filter::default() };
        assert_eq!(
            list(upid.node(), &filter).target(),
            "/api2/json/nodes/pve2/tasks?source=all&vmid=300"
        );
    }

    #[test]
    fn exit_statuses_are_classified() {
        let state = |exit: &str| {
            TaskState::decode(&json!({"status": "stopped", "exitstatus": exit})).unwrap()
        };
        assert_eq!(state("OK"), TaskState::Done { warnings: 0 });
        assert_eq!(state("WARNINGS: 3"), TaskState::Done { warnings: 3 });
        assert_eq!(state("unexpected status"), TaskState::Undecided);
        let exit = "WARNINGS: none of your business".to_owned();
        assert_eq!(state(&exit), TaskState::Failed { exit });
        assert_eq!(TaskState::decode(&json!({"status": "running"})).unwrap(), TaskState::Running);
        assert_eq!(TaskState::decode(&json!({"status": "stopped"})).unwrap(), TaskState::Undecided);
    }

    #[test]
    fn task_lists_have_the_exit_status_in_another_field() {
        let entry = |extra: Value| {
            let mut data = json!({"upid": UPID});
            data.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            TaskEntry::decode(&data).unwrap().state
        };
        assert_eq!(entry(json!({})), TaskState::Running);
        assert_eq!(entry(json!({"status": "RUNNING"})), TaskState::Running);
        assert_eq!(entry(json!({"status": "OK", "endtime": 5})), TaskState::Done { warnings: 0 });
        assert!(matches!(
            entry(json!({"status": "it broke", "endtime": 5})),
            TaskState::Failed { .. }
        ));
    }
}
