//! One connection: request after request, in pveproxy's order of checks, until one side has enough.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::{Answer, Encoding, Format, Manner};
use super::head::{Head, NoHead};
use super::text::{self, Params};
use super::upload::{self, Received, Spoiled};
use super::wire::{Lost, Wire};
use super::{Idle, PAGE, Patience};
use crate::auth::{Credentials, Stranger, is_upload, upload_storage};
use crate::gate::{Gate, Request, Verdict};
use crate::record::Entry;
use crate::world::Caller;

/// How often a connection is used before it is closed.
const REQUESTS: u32 = 100;
const MAX_BODY: u64 = 512 * 1024;
/// How long those who are not let in wait for their answer.
const PENALTY: Duration = Duration::from_secs(3);

pub(super) struct Connection<S> {
    pub(super) wire: Wire<S>,
    pub(super) gate: Arc<Gate>,
    pub(super) patience: Patience,
    pub(super) is_tls: bool,
}

/// An answer, and whether it is held back for a while.
struct Decided {
    answer: Answer,
    penalty: bool,
}

impl From<Answer> for Decided {
    fn from(answer: Answer) -> Self {
        Self { answer, penalty: false }
    }
}

/// A path under `/api2`, taken apart.
struct ApiPath {
    format: String,
    path: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<S> {
    pub(super) async fn serve(mut self, mut idle: Idle) {
        for left in (0..REQUESTS).rev() {
            if self.wire.waiting().is_empty() {
                let first = tokio::select! {
                    first = self.wire.more(self.patience.idle) => first,
                    () = idle.must_go() => Err(Lost::Silent),
                };
                if first.is_err() {
                    break;
                }
            }
            let may_stay = left > 0 && !*idle.stop.borrow();
            match self.exchange(may_stay).await {
                Ok(true) => {}
                Ok(false) => break,
                // Without a goodbye: the client sees a connection that broke.
                Err(_) => return,
            }
        }
        self.wire.close().await;
    }

    /// One request and its answer. Whether the connection goes on.
    async fn exchange(&mut self, may_stay: bool) -> Result<bool, Lost> {
        let reading = Head::read(&mut self.wire, self.patience.head);
        let Ok(head) = tokio::time::timeout(self.patience.head, reading).await else {
            return Err(Lost::Silent);
        };
        let head = match head {
            Ok(head) => head,
            Err(NoHead::Refused(answer)) => {
                let manner = self.manner(0, false, Encoding::Plain);
                self.wire.send(&answer.bytes(manner), self.patience.body).await?;
                return Ok(false);
            }
            Err(NoHead::Lost(lost)) => return Err(lost),
        };
        let mut entry = Entry::begin(&self.gate.site.clock, &head.method);
        let decided = self.decide(&head, &mut entry).await;
        let Decided { answer, penalty } = match decided {
            Ok(decided) => decided,
            Err(lost) => {
                self.gate.record(entry, None);
                return Err(lost);
            }
        };
        if penalty {
            self.gate.site.clock.sleep(PENALTY).await;
        }
        self.gate.record(entry, Some(answer.as_recorded()));
        let uploaded = head.method == "POST" && is_upload_target(&head);
        let keep =
            may_stay && self.is_tls && !answer.is_refusal() && !uploaded && !head.wants_close();
        let manner = self.manner(head.minor, keep, accepted(&head));
        self.wire.send(&answer.bytes(manner), self.patience.body).await?;
        Ok(keep)
    }

    fn manner(&self, minor: u8, keep: bool, encoding: Encoding) -> Manner {
        Manner { minor, keep, encoding, now: self.gate.site.now() }
    }

    async fn decide(&mut self, head: &Head, entry: &mut Entry) -> Result<Decided, Lost> {
        let (path, query) = head.path_and_query();
        let path = text::unescape(path);
        entry.path.clone_from(&path);
        if let Some(answer) = self.refuse_head(head) {
            return Ok(answer.into());
        }
        let contacted = self.gate.contacted(head.header("Host"));
        let Some(contacted) = contacted else { return Err(Lost::Cut) };
        let api = match path.strip_prefix("/api2") {
            Some(rest) => match ApiPath::parse(rest) {
                Some(api) => Some(api),
                None => return Ok(Answer::error(501, "no such uri").into()),
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
            match self.gate.admit(&head.method, &api.path, &shown) {
                Ok(admitted) => caller = admitted,
                Err(stranger) => return Ok(stranger.into()),
            }
            if let Some(refused) = self.refuse_upload(head, api, caller.as_ref()) {
                return Ok(refused);
            }
        }
        let (mut params, upload) = match self.body(head, api.as_ref(), &contacted).await? {
            Ok(Body::None) => (Params::new(), None),
            Ok(Body::Params(params)) => (params, None),
            Ok(Body::File(Received { params, upload })) => (params, Some(upload)),
            Err(answer) => return Ok(answer.into()),
        };
        let Some(ApiPath { format, path }) = api else {
            return Ok(self.outside(&head.method, &path).into());
        };
        let Some(format) = Format::parse(&format) else {
            let text = format!("no formatter for uri {path}, {format}");
            return Ok(Answer::error(501, &text).into());
        };
        // What stands in the query goes before the body; a form with a file goes before the query.
        for (name, value) in text::form(query) {
            if upload.is_none() || !params.contains_key(&name) {
                params.insert(name, value);
            }
        }
        params.remove("_dc");
        entry.params.clone_from(&params);
        let method = head.method.clone();
        let request = Request { method, path, params, caller, with_token, contacted, upload };
        match self.gate.answer(request).await {
            Verdict::Answer(outcome) => {
                let penalty = matches!(&outcome, Err(refusal) if refusal.status == 401);
                Ok(Decided { answer: Answer::of(outcome, format), penalty })
            }
            Verdict::Stranger => Ok(Stranger::Failed.into()),
            Verdict::Cut => Err(Lost::Cut),
        }
    }

    /// What can be said by the head alone.
    fn refuse_head(&self, head: &Head) -> Option<Answer> {
        if !matches!(head.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
            let text = format!("method '{}' not available", head.method);
            return Some(Answer::bare(501, &text));
        }
        if let Some(coding) = head.header("Transfer-Encoding") {
            return Some(if coding.eq_ignore_ascii_case("chunked") {
                Answer::error(501, "chunked transfer encoding not supported")
            } else {
                Answer::error(501, &format!("Unknown transfer encoding '{coding}'"))
            });
        }
        if self.is_tls {
            return None;
        }
        let Some(host) = head.header("Host") else {
            return Some(Answer::error(400, "bad request"));
        };
        let location = format!("https://{host}{}", head.target);
        Some(match head.method.as_str() {
            "GET" => Answer::redirect(301, "Moved Permanently", location),
            _ => Answer::redirect(308, "Permanent Redirect", location),
        })
    }

    /// Files need no second token, so the right to upload is looked at before anything is read.
    fn refuse_upload(
        &self,
        head: &Head,
        api: &ApiPath,
        caller: Option<&Caller>,
    ) -> Option<Decided> {
        let storage = upload_storage(&head.method, &api.path)?;
        let refusal = self.gate.may_upload(caller?, storage).err()?;
        let answer = Answer::bare(refusal.status, &refusal.message);
        Some(Decided { answer, penalty: true })
    }

    async fn body(
        &mut self,
        head: &Head,
        api: Option<&ApiPath>,
        contacted: &str,
    ) -> Result<Result<Body, Answer>, Lost> {
        let Some(length) = head.body_length() else {
            return Ok(Err(Answer::error(400, "bad request")));
        };
        if length == 0 {
            return Ok(Ok(Body::None));
        }
        if !matches!(head.method.as_str(), "PUT" | "POST") {
            let text = format!("Unexpected content for method '{}'", head.method);
            return Ok(Err(Answer::error(501, &text)));
        }
        let content_type = head.content_type();
        let is_upload = api.is_some_and(|api| is_upload(&head.method, &api.path));
        if let Some(("multipart/form-data", Some(boundary))) = content_type
            && is_upload
        {
            self.go_on(head).await?;
            let site = Arc::clone(&self.gate.site);
            let file =
                upload::receive(&mut self.wire, boundary, length, &site, contacted, self.patience);
            return match file.await {
                Ok(received) => Ok(Ok(Body::File(received))),
                Err(Spoiled::Told(text)) => Ok(Err(Answer::error(500, &text))),
                Err(Spoiled::Lost(lost)) => Err(lost),
            };
        }
        if length > MAX_BODY {
            return Ok(Err(Answer::error(501, "for data too large")));
        }
        let kind = content_type.map(|(kind, _)| kind);
        if !matches!(kind, None | Some("application/x-www-form-urlencoded" | "application/json")) {
            let given = head.header("Content-Type").unwrap_or_default();
            let text = format!("upload 'Content-Type '{given}' not implemented");
            return Ok(Err(Answer::error(506, &text)));
        }
        self.go_on(head).await?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = self.wire.exactly(length, self.patience.body).await?;
        Ok(read_params(&bytes, kind == Some("application/json")).map(Body::Params))
    }

    /// Tells a client that waits to be told.
    async fn go_on(&mut self, head: &Head) -> Result<(), Lost> {
        let expects = head.header("Expect");
        if expects.is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n", self.patience.body).await?;
        }
        Ok(())
    }

    /// What is not the API: where the web interface would be.
    fn outside(&self, method: &str, path: &str) -> Answer {
        match (method, path) {
            ("GET", "/") => Answer::page(PAGE),
            _ => Answer::error(500, &format!("no such file '{path}'\n")),
        }
    }
}

enum Body {
    None,
    Params(Params),
    File(Received),
}

impl ApiPath {
    /// `/json/nodes/pve` and the like; slashes before the format may be several.
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

impl From<Stranger> for Decided {
    fn from(stranger: Stranger) -> Self {
        Self { answer: Answer::bare(401, stranger.reason()), penalty: true }
    }
}

fn read_params(bytes: &[u8], is_json: bool) -> Result<Params, Answer> {
    if !is_json {
        return Ok(text::form(&String::from_utf8_lossy(bytes)));
    }
    match serde_json::from_slice(bytes) {
        Ok(Json::Object(params)) => Ok(params),
        Ok(_) => Err(Answer::error(500, "Not a HASH reference\n")),
        Err(error) => Err(Answer::error(500, &format!("malformed JSON string: {error}\n"))),
    }
}

fn is_upload_target(head: &Head) -> bool {
    let path = text::unescape(head.path_and_query().0);
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
