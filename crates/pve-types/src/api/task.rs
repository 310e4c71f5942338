//! Tasks, asked for at the node inside their names.

use serde_json::Value;

use crate::id::{NodeName, Upid, VmId};
use crate::request::Request;
use crate::wire::{Answer, Decode, Fields, Unreadable};

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    /// Ended well, perhaps with warnings.
    Done {
        warnings: u32,
    },
    /// Stopped, and its last word is not written yet: ask again.
    Undecided,
    Failed {
        exit: String,
    },
}

impl TaskState {
    /// What the words at the end of a task mean.
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

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    pub lines: Vec<String>,
    /// How many lines the log has in all.
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

/// Ends a task. Its exit text then says so.
pub fn stop(upid: &Upid) -> Request<()> {
    Request::delete(&[&"nodes", upid.node(), &"tasks", upid]).on(upid.node())
}

/// A task in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    pub upid: Upid,
    pub state: TaskState,
    /// In seconds since 1970.
    pub ended: Option<u64>,
}

impl Decode for TaskEntry {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let ended = fields.number("endtime");
        // Here the exit text stands in `status`, and running tasks have none, or say so.
        let state = match fields.text("status") {
            None if ended.is_none() => TaskState::Running,
            Some(text) if text == "running" || text == "RUNNING" => TaskState::Running,
            text => TaskState::of_exit(text.unwrap_or_default().trim()),
        };
        Ok(Self { upid: fields.need("upid")?, state, ended })
    }
}

/// Which tasks of a node are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub vmid: Option<VmId>,
    /// Such as `qmcreate`.
    pub kind: Option<String>,
    /// In seconds since 1970.
    pub since: Option<u64>,
    pub limit: Option<u32>,
}

/// Running and ended tasks of a node that the caller may see: its own always.
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
    fn a_task_is_asked_for_where_it_runs() {
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
    fn last_words_are_understood() {
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
    fn lists_say_it_in_another_way() {
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
