//! Replay of one vector in a lab. It records the results that the API shows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;

use crate::client::{Answer, Client, Identity, Request, encode, escape};
use crate::upload;
use crate::vector::{PASSWORD, SECRET, Step, Vector};

/// Results of a step that a client can observe.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) answer: Answer,
    pub(crate) task: Option<ObservedTask>,
    pub(crate) before: State,
    pub(crate) after: State,
}

#[derive(Debug)]
pub(crate) struct ObservedTask {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) exit: String,
    pub(crate) last_line: String,
}

/// All VMs, and the volumes on one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) vms: BTreeMap<String, ObservedVm>,
    pub(crate) volumes: BTreeSet<String>,
    /// Reason why a part of the state could not be read.
    pub(crate) unreadable: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedVm {
    pub(crate) node: String,
    pub(crate) status: String,
    pub(crate) config: Json,
    pub(crate) pending: Json,
}

pub(crate) struct Replay<'v> {
    vector: &'v Vector,
    client: Client,
    root: Identity,
    identities: BTreeMap<String, Identity>,
    /// Digest in the answer of each step so far.
    digests: Vec<Option<String>>,
    /// Last state that was read, and the host that it was read from.
    state: Option<(String, State)>,
    starts: &'v Starts,
    start: String,
}

/// Initial states, by the name of the start and the host. Many vectors share an initial state.
pub(crate) type Starts = Mutex<HashMap<(String, String), State>>;

type ReplayResult<T> = Result<T, String>;

impl<'v> Replay<'v> {
    /// Prepares a replay. `start` is the name of the initial state.
    pub(crate) fn new(
        vector: &'v Vector,
        client: Client,
        starts: &'v Starts,
        start: String,
    ) -> ReplayResult<Self> {
        let mut replay = Self {
            vector,
            client,
            root: Identity::Anonymous,
            identities: BTreeMap::new(),
            digests: vec![],
            state: None,
            starts,
            start,
        };
        replay.root = replay.log_in("root@pam")?;
        replay.identities.insert("root@pam".to_owned(), replay.root.clone());
        Ok(replay)
    }

    pub(crate) fn step(&mut self, step: &Step) -> ReplayResult<Observation> {
        let first = self.vector.nodes().first().map(|node| (*node).to_owned());
        let node = step.node().map(str::to_owned).or(first).unwrap_or_default();
        let before = if step.only_reads() { State::default() } else { self.before(&node) };
        let answer = self.send(step).map_err(|e| format!("{} {}: {e}", step.method, step.path))?;
        self.digests.push(answer.body["data"]["digest"].as_str().map(str::to_owned));
        let task = match answer.body["data"].as_str() {
            Some(upid) if upid.starts_with("UPID:") => Some(self.await_task(upid)?),
            _ => None,
        };
        if step.only_reads() {
            return Ok(Observation { answer, task, before, after: State::default() });
        }
        let after = self.observe(&node, Some(&before));
        self.state = Some((node, after.clone()));
        Ok(Observation { answer, task, before, after })
    }

    /// State before a step: the state after the previous step, or the initial state of the vector.
    fn before(&mut self, node: &str) -> State {
        match self.state.take() {
            Some((seen_from, state)) if seen_from == node => return state,
            Some(_) => return self.observe(node, None),
            None => {}
        }
        let key = (self.start.clone(), node.to_owned());
        let starts = self.starts;
        let known = || starts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = known().get(&key) {
            return state.clone();
        }
        let state = self.observe(node, None);
        known().insert(key, state.clone());
        state
    }

    fn send(&mut self, step: &Step) -> io::Result<Answer> {
        let who = self.identity(&step.who).map_err(io::Error::other)?;
        let path = escape_path(&step.path);
        let params = step.params.iter();
        let params = params.filter_map(|(key, value)| Some((key.clone(), self.filled(value)?)));
        let params: Vec<_> = params.collect();
        let Some(file) = &step.upload else {
            return self.client.call(&who, &step.method, &path, &params);
        };
        if !params.iter().any(|(key, _)| key == "filename") {
            // The form always contains a file name. Only the query can omit it.
            let target = format!("{path}?{}", encode(&params));
            return self.client.call(&who, &step.method, &target, &[]);
        }
        let mut body = upload::body(&params, file);
        self.client.send(
            &who,
            &mut Request {
                method: &step.method,
                target: &path,
                content_type: &format!("multipart/form-data; boundary={}", upload::BOUNDARY),
                length: body.length,
                body: &mut body.bytes,
            },
        )
    }

    /// Replaces `<DIGEST:n>` by the digest in the answer of the nth step; `None` if that answer had no digest.
    fn filled(&self, value: &str) -> Option<String> {
        let nth = value.strip_prefix("<DIGEST:").and_then(|rest| rest.strip_suffix('>'));
        match nth.and_then(|nth| nth.parse::<usize>().ok()) {
            Some(nth) => self.digests.get(nth.checked_sub(1)?).cloned().flatten(),
            None => Some(value.to_owned()),
        }
    }

    fn identity(&mut self, who: &str) -> ReplayResult<Identity> {
        if let Some(known) = self.identities.get(who) {
            return Ok(known.clone());
        }
        let identity = if who.contains('!') {
            Identity::Token { id: who.to_owned(), secret: SECRET.to_owned() }
        } else {
            self.log_in(who)?
        };
        self.identities.insert(who.to_owned(), identity.clone());
        Ok(identity)
    }

    fn log_in(&mut self, user: &str) -> ReplayResult<Identity> {
        let params = [("username", user), ("password", PASSWORD)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let answer = self.client.call(&Identity::Anonymous, "POST", "/access/ticket", &params);
        let answer = answer.map_err(|error| format!("login of {user}: {error}"))?;
        let data = &answer.body["data"];
        match (data["ticket"].as_str(), data["CSRFPreventionToken"].as_str()) {
            (Some(ticket), Some(csrf)) => {
                Ok(Identity::Ticket { ticket: ticket.to_owned(), csrf: csrf.to_owned() })
            }
            _ => Err(format!("login of {user}: {} {}", answer.status, answer.reason)),
        }
    }

    /// Sends a GET request as root, and returns the data of the answer.
    fn ask(&mut self, path: &str) -> ReplayResult<Json> {
        let answer = self.client.call(&self.root, "GET", path, &[]);
        let mut answer = answer.map_err(|error| format!("GET {path}: {error}"))?;
        match answer.status {
            200 => Ok(answer.body["data"].take()),
            status => Err(format!("GET {path}: {status} {}", answer.reason)),
        }
    }

    fn await_task(&mut self, upid: &str) -> ReplayResult<ObservedTask> {
        let node = upid.split(':').nth(1).unwrap_or_default();
        let path = format!("/nodes/{node}/tasks/{}", escape(upid));
        let mut status = Json::Null;
        for round in 0..3000 {
            status = self.ask(&format!("{path}/status"))?;
            if status["status"] == "stopped" {
                break;
            }
            pause(if round < 20 { 1 } else { 10 });
        }
        let log = self.ask(&format!("{path}/log?limit=0"))?;
        let last = log.as_array().and_then(|lines| lines.last());
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        Ok(ObservedTask {
            kind: text(&status["type"]),
            id: text(&status["id"]),
            exit: text(&status["exitstatus"]),
            last_line: last.map(|line| text(&line["t"])).unwrap_or_default(),
        })
    }

    /// Reads the state. This fails if the user was deleted after it got its ticket.
    fn observe(&mut self, node: &str, last: Option<&State>) -> State {
        let mut state = State::default();
        state.unreadable = self.observe_vms(&mut state, last).err();
        if let Err(reason) = self.observe_volumes(node, &mut state) {
            state.unreadable = Some(reason);
        }
        state
    }

    /// Reads the VMs. If the digest of a config is unchanged, its pending changes are unchanged as well and are not read again.
    fn observe_vms(&mut self, state: &mut State, last: Option<&State>) -> ReplayResult<()> {
        for host in self.vector.nodes() {
            let list = self.ask(&format!("/nodes/{host}/qemu"))?;
            for vm in list.as_array().into_iter().flatten() {
                let vmid = vm["vmid"].to_string().trim_matches('"').to_owned();
                let config = self.ask(&format!("/nodes/{host}/qemu/{vmid}/config"))?;
                let known = last.and_then(|last| last.vms.get(&vmid));
                let pending = match known.filter(|vm| vm.config["digest"] == config["digest"]) {
                    Some(vm) => vm.pending.clone(),
                    None => self.ask(&format!("/nodes/{host}/qemu/{vmid}/pending"))?,
                };
                let status = vm["status"].as_str().unwrap_or_default().to_owned();
                let observed = ObservedVm { node: host.to_owned(), status, config, pending };
                state.vms.insert(vmid, observed);
            }
        }
        Ok(())
    }

    fn observe_volumes(&mut self, node: &str, state: &mut State) -> ReplayResult<()> {
        let storages = self.ask(&format!("/nodes/{node}/storage?enabled=1"))?;
        // The list also contains storages that are configured only for other hosts.
        let storages = storages.as_array().into_iter().flatten();
        for storage in storages.filter(|storage| storage["active"] == 1) {
            let name = storage["storage"].as_str().unwrap_or_default();
            let content = self.ask(&format!("/nodes/{node}/storage/{name}/content"))?;
            let volumes = content.as_array().into_iter().flatten();
            let volumes = volumes.filter_map(|volume| volume["volid"].as_str());
            state.volumes.extend(volumes.map(own_file));
        }
        Ok(())
    }
}

/// File name of a volume. For a linked clone, the base volume before it is omitted.
pub(crate) fn own_file(volid: &str) -> String {
    match volid.split_once(':') {
        Some((storage, name)) => match name.split('/').collect::<Vec<_>>().as_slice() {
            [_, _, vmid, file] => format!("{storage}:{vmid}/{file}"),
            [base, file] if base.starts_with("base-") => format!("{storage}:{file}"),
            _ => volid.to_owned(),
        },
        None => volid.to_owned(),
    }
}

/// Percent-encodes a path. A volume id is one segment, including its slashes.
fn escape_path(path: &str) -> String {
    let segments = |path: &str| path.split('/').map(escape).collect::<Vec<_>>().join("/");
    match path.split_once("/content/") {
        Some((before, volume)) => format!("{}/content/{}", segments(before), escape(volume)),
        None => segments(path),
    }
}

#[expect(clippy::disallowed_methods, reason = "the lab's answers come over a real socket")]
fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
