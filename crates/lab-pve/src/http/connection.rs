//! HTTP connection: answers requests until one side closes the connection. The checks have the same order as in `pveproxy`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::buffered_stream::{BufferedStream, ConnectionLost};
use super::request_head::{Head, HeadError};
use super::response::{Encoding, HttpResponse, OutputFormat, ResponseOptions};
use super::upload::{self, ReceivedUpload, UploadError};
use super::url_encoding::{self, Params};
use super::{IdleSignals, PAGE, Timeouts};
use crate::auth::{AuthFailure, Credentials, is_upload, upload_storage};
use crate::gate::{ApiRequest, Gate, GateOutcome};
use crate::pve_state::Caller;
use crate::request_log::LogEntry;

/// Maximum number of requests per connection.
const MAX_REQUESTS: u32 = 100;
const MAX_BODY: u64 = 512 * 1024;
/// Delay of the response to a request that failed authentication.
const AUTH_FAILURE_DELAY: Duration = Duration::from_secs(3);

/// HTTP connection with a client.
pub(super) struct HttpConnection<S> {
    pub(super) stream: BufferedStream<S>,
    pub(super) gate: Arc<Gate>,
    pub(super) timeouts: Timeouts,
    pub(super) is_tls: bool,
}

/// Response to a request. `delayed` is set if authentication failed, because the response is then delayed.
struct PreparedAnswer {
    answer: HttpResponse,
    delayed: bool,
}

impl From<HttpResponse> for PreparedAnswer {
    fn from(answer: HttpResponse) -> Self {
        Self { answer, delayed: false }
    }
}

/// Format and path of a request below `/api2`.
struct ApiPath {
    format: String,
    path: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> HttpConnection<S> {
    pub(super) async fn serve(mut self, mut idle: IdleSignals) {
        for left in (0..MAX_REQUESTS).rev() {
            if self.stream.buffered().is_empty() {
                let first = tokio::select! {
                    first = self.stream.more(self.timeouts.idle) => first,
                    () = idle.wait_for_close() => Err(ConnectionLost::TimedOut),
                };
                if first.is_err() {
                    break;
                }
            }
            let may_stay = left > 0 && !*idle.stop.borrow();
            match self.handle_request(may_stay).await {
                Ok(true) => {}
                Ok(false) => break,
                // The connection is closed without a TLS close notification, as if the network had failed.
                Err(_) => return,
            }
        }
        self.stream.close().await;
    }

    /// Handles one request. Returns whether the connection stays open.
    async fn handle_request(&mut self, may_stay: bool) -> Result<bool, ConnectionLost> {
        let reading = Head::read(&mut self.stream, self.timeouts.head);
        let Ok(head) = tokio::time::timeout(self.timeouts.head, reading).await else {
            return Err(ConnectionLost::TimedOut);
        };
        let head = match head {
            Ok(head) => head,
            Err(HeadError::Rejected(answer)) => {
                let options = self.response_options(0, false, Encoding::Plain);
                self.stream.send(&answer.bytes(options), self.timeouts.body).await?;
                return Ok(false);
            }
            Err(HeadError::ConnectionLost(lost)) => return Err(lost),
        };
        let mut entry = LogEntry::begin(&self.gate.site.clock, &head.method);
        let prepared = self.prepare_answer(&head, &mut entry).await;
        let PreparedAnswer { answer, delayed } = match prepared {
            Ok(prepared) => prepared,
            Err(lost) => {
                self.gate.record(entry, None);
                return Err(lost);
            }
        };
        if delayed {
            self.gate.site.clock.sleep(AUTH_FAILURE_DELAY).await;
        }
        self.gate.record(entry, Some(answer.for_log()));
        let uploaded = head.method == "POST" && is_upload_target(&head);
        let keep =
            may_stay && self.is_tls && !answer.is_error() && !uploaded && !head.wants_close();
        let options = self.response_options(head.minor, keep, accepted(&head));
        self.stream.send(&answer.bytes(options), self.timeouts.body).await?;
        Ok(keep)
    }

    fn response_options(&self, minor: u8, keep: bool, encoding: Encoding) -> ResponseOptions {
        ResponseOptions { minor, keep, encoding, now: self.gate.site.now() }
    }

    async fn prepare_answer(
        &mut self,
        head: &Head,
        entry: &mut LogEntry,
    ) -> Result<PreparedAnswer, ConnectionLost> {
        let (path, query) = head.path_and_query();
        let path = url_encoding::unescape(path);
        entry.path.clone_from(&path);
        if let Some(answer) = self.head_error(head) {
            return Ok(answer.into());
        }
        let contacted = self.gate.contacted(head.header("Host"));
        let Some(contacted) = contacted else { return Err(ConnectionLost::Cut) };
        let api = match path.strip_prefix("/api2") {
            Some(rest) => match ApiPath::parse(rest) {
                Some(api) => Some(api),
                None => return Ok(HttpResponse::error(501, "no such uri").into()),
            },
            None => None,
        };
        let mut caller = None;
        let mut with_token = false;
        if let Some(api) = &api {
            let shown = Credentials::read(
                head.header("Cookie"),
                head.header("Authorization"),
                head.header("CSRFPreventionToken"),
            );
            with_token = shown.token.is_some();
            match self.gate.authenticate(&head.method, &api.path, &shown) {
                Ok(admitted) => caller = admitted,
                Err(failure) => return Ok(failure.into()),
            }
            if let Some(rejected) = self.upload_error(head, api, caller.as_ref()) {
                return Ok(rejected);
            }
        }
        let (mut params, upload) = match self.body(head, api.as_ref(), &contacted).await? {
            Ok(RequestBody::None) => (Params::new(), None),
            Ok(RequestBody::Params(params)) => (params, None),
            Ok(RequestBody::File(ReceivedUpload { params, upload })) => (params, Some(upload)),
            Err(answer) => return Ok(answer.into()),
        };
        let Some(ApiPath { format, path }) = api else {
            return Ok(self.non_api_answer(&head.method, &path).into());
        };
        let Some(format) = OutputFormat::parse(&format) else {
            let text = format!("no formatter for uri {path}, {format}");
            return Ok(HttpResponse::error(501, &text).into());
        };
        // Query parameters take precedence over parameters in the body. Form fields of an upload take precedence over query
        // parameters.
        for (name, value) in url_encoding::form(query) {
            if upload.is_none() || !params.contains_key(&name) {
                params.insert(name, value);
            }
        }
        params.remove("_dc");
        entry.params.clone_from(&params);
        let method = head.method.clone();
        let request = ApiRequest { method, path, params, caller, with_token, contacted, upload };
        match self.gate.answer(request).await {
            GateOutcome::Answer(outcome) => {
                let delayed = matches!(&outcome, Err(api_error) if api_error.status == 401);
                Ok(PreparedAnswer { answer: HttpResponse::of(outcome, format), delayed })
            }
            GateOutcome::AuthFailure => Ok(AuthFailure::Failed.into()),
            GateOutcome::Cut => Err(ConnectionLost::Cut),
        }
    }

    /// Error that the request line and the headers already cause, before the body is read.
    fn head_error(&self, head: &Head) -> Option<HttpResponse> {
        if !matches!(head.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
            let text = format!("method '{}' not available", head.method);
            return Some(HttpResponse::without_body(501, &text));
        }
        if let Some(coding) = head.header("Transfer-Encoding") {
            return Some(if coding.eq_ignore_ascii_case("chunked") {
                HttpResponse::error(501, "chunked transfer encoding not supported")
            } else {
                HttpResponse::error(501, &format!("Unknown transfer encoding '{coding}'"))
            });
        }
        if self.is_tls {
            return None;
        }
        let Some(host) = head.header("Host") else {
            return Some(HttpResponse::error(400, "bad request"));
        };
        let location = format!("https://{host}{}", head.target);
        Some(match head.method.as_str() {
            "GET" => HttpResponse::redirect(301, "Moved Permanently", location),
            _ => HttpResponse::redirect(308, "Permanent Redirect", location),
        })
    }

    /// Checks the permission to upload. This happens before the body is read, because uploads need no CSRF token.
    fn upload_error(
        &self,
        head: &Head,
        api: &ApiPath,
        caller: Option<&Caller>,
    ) -> Option<PreparedAnswer> {
        let storage = upload_storage(&head.method, &api.path)?;
        let error = self.gate.may_upload(caller?, storage).err()?;
        let answer = HttpResponse::without_body(error.status, &error.message);
        Some(PreparedAnswer { answer, delayed: true })
    }

    async fn body(
        &mut self,
        head: &Head,
        api: Option<&ApiPath>,
        contacted: &str,
    ) -> Result<Result<RequestBody, HttpResponse>, ConnectionLost> {
        let Some(length) = head.body_length() else {
            return Ok(Err(HttpResponse::error(400, "bad request")));
        };
        if length == 0 {
            return Ok(Ok(RequestBody::None));
        }
        if !matches!(head.method.as_str(), "PUT" | "POST") {
            let text = format!("Unexpected content for method '{}'", head.method);
            return Ok(Err(HttpResponse::error(501, &text)));
        }
        let content_type = head.content_type();
        let is_upload = api.is_some_and(|api| is_upload(&head.method, &api.path));
        if let Some(("multipart/form-data", Some(boundary))) = content_type
            && is_upload
        {
            self.send_continue(head).await?;
            let site = Arc::clone(&self.gate.site);
            let file = upload::receive(
                &mut self.stream,
                boundary,
                length,
                &site,
                contacted,
                self.timeouts,
            );
            return match file.await {
                Ok(received) => Ok(Ok(RequestBody::File(received))),
                Err(UploadError::Message(text)) => Ok(Err(HttpResponse::error(500, &text))),
                Err(UploadError::ConnectionLost(lost)) => Err(lost),
            };
        }
        if length > MAX_BODY {
            return Ok(Err(HttpResponse::error(501, "for data too large")));
        }
        let kind = content_type.map(|(kind, _)| kind);
        if !matches!(kind, None | Some("application/x-www-form-urlencoded" | "application/json")) {
            let given = head.header("Content-Type").unwrap_or_default();
            let text = format!("upload 'Content-Type '{given}' not implemented");
            return Ok(Err(HttpResponse::error(506, &text)));
        }
        self.send_continue(head).await?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = self.stream.exactly(length, self.timeouts.body).await?;
        Ok(read_params(&bytes, kind == Some("application/json")).map(RequestBody::Params))
    }

    /// Sends `100 Continue` if the client expects it.
    async fn send_continue(&mut self, head: &Head) -> Result<(), ConnectionLost> {
        let expects = head.header("Expect");
        if expects.is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.send(b"HTTP/1.1 100 Continue\r\n\r\n", self.timeouts.body).await?;
        }
        Ok(())
    }

    /// Response for a path outside the API, where Proxmox serves the web interface.
    fn non_api_answer(&self, method: &str, path: &str) -> HttpResponse {
        match (method, path) {
            ("GET", "/") => HttpResponse::page(PAGE),
            _ => HttpResponse::error(500, &format!("no such file '{path}'\n")),
        }
    }
}

/// Parsed body of a request.
enum RequestBody {
    None,
    Params(Params),
    File(ReceivedUpload),
}

impl ApiPath {
    /// Parses `/json/nodes/pve`. Several slashes before the format are accepted.
    fn parse(rest: &str) -> Option<Self> {
        let named = rest.trim_start_matches('/');
        if named.len() == rest.len() {
            return None;
        }
        let (format, path) = named.find('/').map_or((named, "/"), |at| named.split_at(at));
        let is_name = format.len() > 1
            && format.starts_with(|letter: char| letter.is_ascii_lowercase())
            && format.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        is_name.then(|| Self { format: format.to_owned(), path: path.to_owned() })
    }
}

impl From<AuthFailure> for PreparedAnswer {
    fn from(failure: AuthFailure) -> Self {
        Self { answer: HttpResponse::without_body(401, failure.reason()), delayed: true }
    }
}

fn read_params(bytes: &[u8], is_json: bool) -> Result<Params, HttpResponse> {
    if !is_json {
        return Ok(url_encoding::form(&String::from_utf8_lossy(bytes)));
    }
    match serde_json::from_slice(bytes) {
        Ok(Json::Object(params)) => Ok(params),
        Ok(_) => Err(HttpResponse::error(500, "Not a HASH reference\n")),
        Err(error) => Err(HttpResponse::error(500, &format!("malformed JSON string: {error}\n"))),
    }
}

fn is_upload_target(head: &Head) -> bool {
    let path = url_encoding::unescape(head.path_and_query().0);
    let api = path.strip_prefix("/api2").and_then(ApiPath::parse);
    api.is_some_and(|api| is_upload(&head.method, &api.path))
}

fn accepted(head: &Head) -> Encoding {
    match head.header("Accept-Encoding") {
        Some(value) if value.contains("gzip") => Encoding::Gzip,
        Some(value) if value.contains("deflate") => Encoding::Deflate,
        _ => Encoding::Plain,
    }
}
