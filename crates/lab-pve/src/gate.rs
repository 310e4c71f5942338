//! Request gate: authentication, routing, permission checks, choice of the host and parameter checks of every call, in the same
//! order as in Proxmox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use talmox_lab_environment::Work;
use talmox_lab_environment::fault::{Action, EventSource, FaultEvent};

use super::auth::{AuthFailure, Credentials, Keys};
use super::call::{Call, Outcome, Reply, Upload};
use super::http::Params;
use super::lock::CALL_LOCK_TIMEOUT;
use super::pve_state::{Caller, PveState};
use super::request_log::{LogEntry, LoggedResponse, RequestLog};
use super::schema::{self, Endpoint, Method, Raw};
use super::site::Site;
use super::{ApiError, api, login, pve_state_guard};
use crate::blob::BlobId;
use crate::fault::lock_timeout;

/// Timeout of a request that a host forwards to another host or to its own `pvedaemon`.
const PROXY_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum timeout in real time. It prevents timeouts if lab time is much faster than the machine that runs the lab.
const MIN_REAL_TIMEOUT: Duration = Duration::from_millis(250);
/// Time after which the error for an offline host is returned.
const NO_ROUTE_AFTER: Duration = Duration::from_secs(3);

/// Entry point of all API requests.
#[derive(Debug)]
pub struct Gate {
    pub site: Arc<Site>,
    pub keys: Keys,
    pub recorder: Option<RequestLog>,
}

/// API request before routing and permission checks.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: String,
    /// Decoded path below `/api2/json`.
    pub(crate) path: String,
    pub(crate) params: Params,
    pub(crate) caller: Option<Caller>,
    /// Whether the request contains an API token. The token may be invalid.
    pub(crate) with_token: bool,
    pub(crate) contacted: String,
    pub(crate) upload: Option<Upload>,
}

/// Result of a request that passed through the gate.
#[derive(Debug)]
pub(crate) enum GateOutcome {
    Answer(Outcome),
    /// The API token of the caller was revoked.
    AuthFailure,
    /// The connection is closed without an answer.
    Cut,
}

/// Request for a known endpoint that passed the permission checks. Its parameters are not verified yet.
struct AuthorizedRequest {
    endpoint: &'static Endpoint,
    caller: Caller,
    node: String,
    raw: BTreeMap<String, Raw>,
    upload: Option<Upload>,
}

impl Gate {
    pub(crate) fn record(&self, entry: LogEntry, answered: Option<LoggedResponse<'_>>) {
        if let Some(recorder) = &self.recorder {
            recorder.write(entry, answered);
        }
    }

    /// Host that receives the request: the host in the `Host` header, or else the first online host. `None` if that host is
    /// offline.
    pub(crate) fn contacted(&self, host_header: Option<&str>) -> Option<String> {
        let pve_state = self.site.pve_state();
        let name = host_header.and_then(|header| header.split(':').next()).unwrap_or_default();
        let named = pve_state.hosts.iter().find(|(host, _)| host.eq_ignore_ascii_case(name));
        let entry = named.or_else(|| pve_state.hosts.iter().find(|(_, host)| host.online));
        entry.filter(|(_, host)| host.online).map(|(name, _)| name.clone())
    }

    pub(crate) fn authenticate(
        &self,
        method: &str,
        path: &str,
        shown: &Credentials,
    ) -> Result<Option<Caller>, AuthFailure> {
        self.keys.authenticate(&self.site.pve_state(), method, path, shown, self.site.now())
    }

    pub(crate) fn may_upload(&self, caller: &Caller, storage: &str) -> Result<(), ApiError> {
        let path = format!("/storage/{storage}");
        self.site.pve_state().check(caller, &path, &["Datastore.AllocateTemplate"])
    }

    pub(crate) async fn answer(self: &Arc<Self>, request: ApiRequest) -> GateOutcome {
        let blob = request.upload.as_ref().map(|upload| upload.blob.clone());
        let then = match self.apply_faults(&request).await {
            Ok(then) => then,
            Err(verdict) => {
                self.delete_upload(blob.as_ref());
                return verdict;
            }
        };
        let outcome = match self.authorize(request).await {
            Ok(authorized) => self.site.check_started(self.run_on_host(authorized, blob).await),
            Err(error) => {
                self.delete_upload(blob.as_ref());
                Err(error)
            }
        };
        then.unwrap_or(GateOutcome::Answer(outcome))
    }

    /// Deletes an uploaded file that no volume refers to.
    fn delete_upload(&self, blob: Option<&BlobId>) {
        if let Some(blob) = blob {
            std::fs::remove_file(self.site.blobs.path(blob)).ok();
        }
    }

    /// Applies the faults that match the request. `Err` ends the call before it has an effect. `Ok(Some(_))` replaces the
    /// answer of the call.
    async fn apply_faults(&self, request: &ApiRequest) -> Result<Option<GateOutcome>, GateOutcome> {
        let vmid = vmid_of(request);
        let actions = self.site.environment.faults.matching_actions(&FaultEvent {
            source: EventSource::Proxmox(&request.path),
            method: &request.method,
            vmid,
            host: host_of(request),
            node: None,
        });
        let mut then = None;
        for action in actions {
            self.site.apply_fault(&action);
            match action {
                Action::Reject { status, message } => {
                    return Err(GateOutcome::Answer(Err(ApiError::new(status, message))));
                }
                Action::LostLock => {
                    self.site.clock.sleep(CALL_LOCK_TIMEOUT).await;
                    return Err(GateOutcome::Answer(Err(ApiError::failed(lock_timeout(vmid)))));
                }
                Action::CutBefore => return Err(GateOutcome::Cut),
                Action::CutAfter => then = Some(GateOutcome::Cut),
                Action::TimedOut => then = Some(GateOutcome::Answer(Err(timed_out()))),
                Action::Delay(time) => {
                    if time > PROXY_TIMEOUT {
                        then = Some(GateOutcome::Answer(Err(timed_out())));
                    }
                    self.site.clock.sleep(time.min(PROXY_TIMEOUT)).await;
                }
                Action::Hang => return std::future::pending().await,
                Action::Fail { .. }
                | Action::Unstarted
                | Action::Full { .. }
                | Action::Down { .. }
                | Action::Truncate { .. }
                | Action::RejectCall { .. }
                | Action::Node(_) => {}
                Action::Revoke { token } => {
                    if request.caller.as_ref().is_some_and(|caller| caller.to_string() == token) {
                        return Err(GateOutcome::AuthFailure);
                    }
                }
            }
        }
        Ok(then)
    }

    /// Finds the endpoint of a request, checks the declared permission, and chooses the host.
    async fn authorize(&self, request: ApiRequest) -> Result<AuthorizedRequest, ApiError> {
        let ApiRequest { method, path, params, caller, with_token, contacted, upload } = request;
        let caller = caller.unwrap_or_else(|| Caller::parse(""));
        let release = self.site.pve_state().release;
        let found = Method::parse(&method).and_then(|method| schema::find(release, method, &path));
        let Some((endpoint, of_path)) = found else {
            return Err(ApiError::new(501, format!("Method '{method} {path}' not implemented")));
        };
        let raw = merge(of_path, params)?;
        if with_token && !endpoint.allow_token {
            return Err(ApiError::forbidden(format!(
                "Permission check failed (URI '{path}' not available with API token, need proper \
                 ticket.\n)"
            )));
        }
        let (node, is_up) = {
            let pve_state = self.site.pve_state();
            pve_state.check_declared(&caller, &endpoint.permission, &raw)?;
            let node = host(&pve_state, endpoint, &raw, &contacted)?;
            let is_up = pve_state.hosts.get(&node).is_some_and(|host| host.online);
            (node, is_up)
        };
        if endpoint.proxied && !is_up {
            self.site.clock.sleep(NO_ROUTE_AFTER).await;
            return Err(ApiError::new(595, "No route to host"));
        }
        self.site.wait(Work::Call, endpoint.path).await;
        Ok(AuthorizedRequest { endpoint, caller, node, raw, upload })
    }

    /// Runs the call on its host. The call continues even if the client disconnects.
    async fn run_on_host(
        self: &Arc<Self>,
        authorized: AuthorizedRequest,
        blob: Option<BlobId>,
    ) -> Outcome {
        let gate = Arc::clone(self);
        let work = tokio::spawn(async move {
            let outcome = gate.call_handler(authorized).await;
            if outcome.is_err() {
                gate.delete_upload(blob.as_ref());
            }
            outcome
        });
        let least = MIN_REAL_TIMEOUT.mul_f64(self.site.clock.speed());
        match self.site.clock.timeout(PROXY_TIMEOUT.max(least), work).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ApiError::new(596, "Broken pipe")),
            Err(_) => Err(timed_out()),
        }
    }

    async fn call_handler(&self, authorized: AuthorizedRequest) -> Outcome {
        let AuthorizedRequest { endpoint, caller, node, raw, upload } = authorized;
        let params = schema::verify(endpoint, &raw)?;
        let site = Arc::clone(&self.site);
        let release = site.pve_state().release;
        let by = caller.clone();
        let call = Call { site, caller, node, params, release };
        match endpoint.id() {
            (Method::Post, "/access/ticket") => login::answer(&self.keys, &call),
            (Method::Get, "/access/ticket") => Ok(Reply::NULL),
            _ => pve_state_guard::made_by(by, api::answer(endpoint, call, upload)).await,
        }
    }
}

fn timed_out() -> ApiError {
    ApiError::new(596, "Connection timed out")
}

/// Merges the parameters of the path with those of query and body. Different values for the same parameter are rejected.
fn merge(
    of_path: Vec<(String, String)>,
    params: Params,
) -> Result<BTreeMap<String, Raw>, ApiError> {
    let mut raw: BTreeMap<String, Raw> =
        of_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
    let given: BTreeMap<String, Json> = params.into_iter().collect();
    for (name, value) in given {
        let value = Raw::from(value);
        if let Some(first) = raw.get(&name)
            && first.scalar() != value.scalar()
        {
            let text = "duplicate parameter (already defined in URI) with conflicting values!";
            return Err(ApiError::parameter(name, text));
        }
        raw.insert(name, value);
    }
    Ok(raw)
}

/// Name of the host that handles the call.
fn host(
    pve_state: &PveState,
    endpoint: &Endpoint,
    raw: &BTreeMap<String, Raw>,
    contacted: &str,
) -> Result<String, ApiError> {
    let named = match raw.get("node") {
        Some(node) if endpoint.path.starts_with("/nodes/{node}") => {
            node.scalar().unwrap_or_default()
        }
        _ => return Ok(contacted.to_owned()),
    };
    if named == "localhost" {
        return Ok(contacted.to_owned());
    }
    if endpoint.proxied && !pve_state.hosts.contains_key(&named) {
        return Err(ApiError::failed(format!(
            "hostname lookup '{named}' failed - failed to get address info for: {named}: Name or \
             service not known"
        )));
    }
    Ok(named)
}

fn host_of(request: &ApiRequest) -> &str {
    let mut parts = request.path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("nodes"), Some(node)) if node != "localhost" => node,
        _ => &request.contacted,
    }
}

/// vmid of a call, from its path or its parameters.
fn vmid_of(request: &ApiRequest) -> Option<u32> {
    let mut parts = request.path.split('/').skip_while(|part| *part != "qemu");
    let of_path = parts.nth(1).and_then(|vmid| vmid.parse().ok());
    let of_params = || match request.params.get("vmid")? {
        Json::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|vmid| u32::try_from(vmid).ok()),
    };
    of_path.or_else(of_params)
}
