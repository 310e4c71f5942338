//! What every call passes, in this order: who calls, which endpoint, tokens, rights, the host that
//! answers, parameters, and then the code behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, Place, Sight};

use super::auth::{Credentials, Keys, Stranger};
use super::call::{Call, Outcome, Reply, Upload};
use super::http::Params;
use super::lock::CALL_PATIENCE;
use super::record::{Answered, Entry, Recorder};
use super::schema::{self, Endpoint, Method, Raw};
use super::site::Site;
use super::world::{Caller, World};
use super::{Refusal, api, login};
use crate::blob::BlobId;
use crate::fault::lock_timeout;

/// How long a host waits for the answer of another, or of its own daemon.
const PROXY_PATIENCE: Duration = Duration::from_secs(30);
/// However fast the clock is, a slow machine gets this much real time for an answer.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
/// Until a host that is not there is given up.
const NO_ROUTE_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Gate {
    pub site: Arc<Site>,
    pub keys: Keys,
    pub recorder: Option<Recorder>,
}

/// A call before anybody has looked at it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Below `/api2/json`, decoded.
    pub(crate) path: String,
    pub(crate) params: Params,
    pub(crate) caller: Option<Caller>,
    /// An API token was shown, be it good or not.
    pub(crate) with_token: bool,
    pub(crate) contacted: String,
    pub(crate) upload: Option<Upload>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Answer(Outcome),
    /// The caller's token is not good any more.
    Stranger,
    /// The connection breaks without an answer.
    Cut,
}

/// A call that passed all but the last gates.
struct Passed {
    endpoint: &'static Endpoint,
    caller: Caller,
    node: String,
    raw: BTreeMap<String, Raw>,
    upload: Option<Upload>,
}

impl Gate {
    pub(crate) fn record(&self, entry: Entry, answered: Option<Answered<'_>>) {
        if let Some(recorder) = &self.recorder {
            recorder.write(entry, answered);
        }
    }

    /// The host that the client speaks to: the one whose name it used, else the first that is up.
    /// None when that one is down.
    pub(crate) fn contacted(&self, host_header: Option<&str>) -> Option<String> {
        let world = self.site.world();
        let name = host_header.and_then(|header| header.split(':').next()).unwrap_or_default();
        let named = world.hosts.iter().find(|(host, _)| host.eq_ignore_ascii_case(name));
        let entry = named.or_else(|| world.hosts.iter().find(|(_, host)| host.online));
        entry.filter(|(_, host)| host.online).map(|(name, _)| name.clone())
    }

    pub(crate) fn admit(
        &self,
        method: &str,
        path: &str,
        shown: &Credentials,
    ) -> Result<Option<Caller>, Stranger> {
        self.keys.admit(&self.site.world(), method, path, shown, self.site.now())
    }

    pub(crate) fn may_upload(&self, caller: &Caller, storage: &str) -> Result<(), Refusal> {
        let path = format!("/storage/{storage}");
        self.site.world().check(caller, &path, &["Datastore.AllocateTemplate"])
    }

    pub(crate) async fn answer(self: &Arc<Self>, request: Request) -> Verdict {
        let blob = request.upload.as_ref().map(|upload| upload.blob.clone());
        let then = match self.apply_faults(&request).await {
            Ok(then) => then,
            Err(verdict) => {
                self.discard(blob.as_ref());
                return verdict;
            }
        };
        let outcome = match self.pass(request).await {
            Ok(passed) => self.site.only_started(self.act(passed, blob).await),
            Err(refusal) => {
                self.discard(blob.as_ref());
                Err(refusal)
            }
        };
        then.unwrap_or(Verdict::Answer(outcome))
    }

    /// A file that nobody took goes.
    fn discard(&self, blob: Option<&BlobId>) {
        if let Some(blob) = blob {
            std::fs::remove_file(self.site.blobs.path(blob)).ok();
        }
    }

    /// Faults. Some end the call here, some change what is told in the end.
    async fn apply_faults(&self, request: &Request) -> Result<Option<Verdict>, Verdict> {
        let vmid = vmid_of(request);
        let actions = self.site.environment.faults.strike(&Sight {
            place: Place::Proxmox(&request.path),
            method: &request.method,
            vmid,
            host: host_of(request),
            node: None,
        });
        let mut then = None;
        for action in actions {
            self.site.carry_out(&action);
            match action {
                Action::Refuse { status, message } => {
                    return Err(Verdict::Answer(Err(Refusal::new(status, message))));
                }
                Action::LostLock => {
                    self.site.clock.sleep(CALL_PATIENCE).await;
                    return Err(Verdict::Answer(Err(Refusal::failed(lock_timeout(vmid)))));
                }
                Action::CutBefore => return Err(Verdict::Cut),
                Action::CutAfter => then = Some(Verdict::Cut),
                Action::TimedOut => then = Some(Verdict::Answer(Err(timed_out()))),
                Action::Delay(time) => {
                    if time > PROXY_PATIENCE {
                        then = Some(Verdict::Answer(Err(timed_out())));
                    }
                    self.site.clock.sleep(time.min(PROXY_PATIENCE)).await;
                }
                Action::Hang => return std::future::pending().await,
                Action::Fail { .. }
                | Action::Unstarted
                | Action::Full { .. }
                | Action::Down { .. }
                | Action::Truncate { .. }
                | Action::RefuseCall { .. }
                | Action::Node(_) => {}
                Action::Revoke { token } => {
                    if request.caller.as_ref().is_some_and(|caller| caller.to_string() == token) {
                        return Err(Verdict::Stranger);
                    }
                }
            }
        }
        Ok(then)
    }

    /// All gates up to the host that answers.
    async fn pass(&self, request: Request) -> Result<Passed, Refusal> {
        let Request { method, path, params, caller, with_token, contacted, upload } = request;
        let caller = caller.unwrap_or_else(|| Caller::parse(""));
        let release = self.site.world().release;
        let found = Method::parse(&method).and_then(|method| schema::find(release, method, &path));
        let Some((endpoint, of_path)) = found else {
            return Err(Refusal::new(501, format!("Method '{method} {path}' not implemented")));
        };
        let raw = merge(of_path, params)?;
        if with_token && !endpoint.allow_token {
            return Err(Refusal::forbidden(format!(
                "Permission check failed (URI '{path}' not available with API token, need proper \
                 ticket.\n)"
            )));
        }
        let (node, is_up) = {
            let world = self.site.world();
            world.check_declared(&caller, &endpoint.permission, &raw)?;
            let node = host(&world, endpoint, &raw, &contacted)?;
            let is_up = world.hosts.get(&node).is_some_and(|host| host.online);
            (node, is_up)
        };
        if endpoint.proxied && !is_up {
            self.site.clock.sleep(NO_ROUTE_AFTER).await;
            return Err(Refusal::new(595, "No route to host"));
        }
        self.site.wait(Work::Call, endpoint.path).await;
        Ok(Passed { endpoint, caller, node, raw, upload })
    }

    /// Lets the host work. It goes on even if nobody waits for it any more.
    async fn act(self: &Arc<Self>, passed: Passed, blob: Option<BlobId>) -> Outcome {
        let gate = Arc::clone(self);
        let work = tokio::spawn(async move {
            let outcome = gate.handle(passed).await;
            if outcome.is_err() {
                gate.discard(blob.as_ref());
            }
            outcome
        });
        let least = LEAST_PATIENCE.mul_f64(self.site.clock.speed());
        match self.site.clock.timeout(PROXY_PATIENCE.max(least), work).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Refusal::new(596, "Broken pipe")),
            Err(_) => Err(timed_out()),
        }
    }

    async fn handle(&self, passed: Passed) -> Outcome {
        let Passed { endpoint, caller, node, raw, upload } = passed;
        let params = schema::verify(endpoint, &raw)?;
        let site = Arc::clone(&self.site);
        let release = site.world().release;
        let call = Call { site, caller, node, params, release };
        match endpoint.id() {
            (Method::Post, "/access/ticket") => login::answer(&self.keys, &call),
            (Method::Get, "/access/ticket") => Ok(Reply::NULL),
            _ => api::answer(endpoint, call, upload).await,
        }
    }
}

fn timed_out() -> Refusal {
    Refusal::new(596, "Connection timed out")
}

/// The parameters of the path and the others, unless they contradict each other.
fn merge(of_path: Vec<(String, String)>, params: Params) -> Result<BTreeMap<String, Raw>, Refusal> {
    let mut raw: BTreeMap<String, Raw> =
        of_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
    let given: BTreeMap<String, Json> = params.into_iter().collect();
    for (name, value) in given {
        let value = Raw::from(value);
        if let Some(first) = raw.get(&name)
            && first.scalar() != value.scalar()
        {
            let text = "duplicate parameter (already defined in URI) with conflicting values!";
            return Err(Refusal::parameter(name, text));
        }
        raw.insert(name, value);
    }
    Ok(raw)
}

/// The host that answers.
fn host(
    world: &World,
    endpoint: &Endpoint,
    raw: &BTreeMap<String, Raw>,
    contacted: &str,
) -> Result<String, Refusal> {
    let named = match raw.get("node") {
        Some(node) if endpoint.path.starts_with("/nodes/{node}") => {
            node.scalar().unwrap_or_default()
        }
        _ => return Ok(contacted.to_owned()),
    };
    if named == "localhost" {
        return Ok(contacted.to_owned());
    }
    if endpoint.proxied && !world.hosts.contains_key(&named) {
        return Err(Refusal::failed(format!(
            "hostname lookup '{named}' failed - failed to get address info for: {named}: Name or \
             service not known"
        )));
    }
    Ok(named)
}

fn host_of(request: &Request) -> &str {
    let mut parts = request.path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("nodes"), Some(node)) if node != "localhost" => node,
        _ => &request.contacted,
    }
}

/// The VM that a call is about, by its path or else by its parameters.
fn vmid_of(request: &Request) -> Option<u32> {
    let mut parts = request.path.split('/').skip_while(|part| *part != "qemu");
    let of_path = parts.nth(1).and_then(|vmid| vmid.parse().ok());
    let of_params = || match request.params.get("vmid")? {
        Json::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|vmid| u32::try_from(vmid).ok()),
    };
    of_path.or_else(of_params)
}
