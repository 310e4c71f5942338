//! Sending of one request, through the first endpoint that accepts it.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use talmox_pve_types::request::{Method, Request};
use talmox_pve_types::wire::Answer;

use super::Inner;
use super::auth::AuthHeaders;
use super::body::Outgoing;
use super::connection::{ExchangeError, Reply, exchange, open};
use super::endpoint::Endpoint;
use super::trace::{self, traced};
use crate::error::{Lost, NotSent, PveError};
use crate::response::interpret;

/// Maximum idle time of a connection for a write. If the connection was idle for longer, another one is opened.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum idle time of a connection for a read. It is longer, because a read can be sent again if the connection was
/// closed.
const WARM: Duration = Duration::from_secs(3);

/// Request without the type of its answer.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) operation: String,
    method: Method,
    target: String,
    body: Option<String>,
    /// Whether the request changes nothing, so that it can be sent again if the answer was lost.
    is_repeatable: bool,
}

impl Call {
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        Self {
            operation: request.operation(),
            method: request.method(),
            target: request.target(),
            body: request.body(),
            is_repeatable: request.method() == Method::Get,
        }
    }

    /// Marks the request as one that changes nothing, although its method is not GET.
    pub(super) fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }

    fn http(&self, endpoint: &Endpoint, auth: &AuthHeaders) -> hyper::Request<Outgoing> {
        let mut request =
            http(self.method, &self.target, endpoint, auth, Outgoing::whole(self.body.clone()));
        if let Some(body) = &self.body {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(CONTENT_TYPE, form);
            // An empty form also needs a length, because gateways reject requests without a length.
            request.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        request
    }
}

/// Builds the HTTP request. Building it cannot fail, because the parts of the target are escaped and the host was
/// already resolved.
pub(super) fn http(
    method: Method,
    target: &str,
    endpoint: &Endpoint,
    auth: &AuthHeaders,
    body: Outgoing,
) -> hyper::Request<Outgoing> {
    let mut request = hyper::Request::new(body);
    *request.method_mut() = match method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
        Method::Put => hyper::Method::PUT,
        Method::Delete => hyper::Method::DELETE,
    };
    *request.uri_mut() = target.parse().expect("invariant: targets are escaped");
    request.headers_mut().extend(auth.headers.clone());
    if let Ok(host) = HeaderValue::try_from(endpoint.authority()) {
        request.headers_mut().insert(HOST, host);
    }
    request
}

/// Failure of an attempt with one endpoint.
enum Failure {
    NotSent(NotSent),
    Lost(Lost),
}

impl Inner {
    /// Sends a request with authentication. If the ticket is rejected, the client logs in again once and repeats the
    /// request.
    pub(super) async fn call(&self, call: &Call) -> Result<Answer, PveError> {
        traced(&call.operation, call.is_repeatable, self.call_with_auth(call)).await
    }

    async fn call_with_auth(&self, call: &Call) -> Result<Answer, PveError> {
        let auth = self.auth(&call.operation, None).await?;
        match self.route(call, &auth).await {
            // The server does not execute a request without valid authentication, so sending it again is safe.
            Err(error) if error.is_auth() && auth.number.is_some() => {
                trace::retried(&call.operation, 1, &error);
                let auth = self.auth(&call.operation, auth.number).await?;
                self.route(call, &auth).await
            }
            result => result,
        }
    }

    /// Sends the request to one endpoint after another, as long as a retry is safe.
    pub(super) async fn route(&self, call: &Call, auth: &AuthHeaders) -> Result<Answer, PveError> {
        let mut order = self.endpoints.order(None);
        if call.is_repeatable && order.len() == 1 {
            order.push(order[0]);
        }
        let mut unreachable = None;
        let mut last = None;
        let mut retries = 0;
        for index in order {
            if unreachable == Some(index) {
                continue;
            }
            if let Some(failure) = &last {
                retries += 1;
                trace::retried(&call.operation, retries, failure);
            }
            let failure = match self.attempt(index, call, auth).await {
                Ok(Reply { status, reason, body }) => {
                    trace::answered(status);
                    match interpret(&call.operation, status, &reason, &body) {
                        Err(error) if call.is_repeatable && is_gateway(&error) => {
                            self.endpoints.failed(index);
                            error
                        }
                        result => {
                            self.endpoints.worked(index);
                            return result;
                        }
                    }
                }
                Err(Failure::NotSent(source)) => {
                    self.endpoints.failed(index);
                    unreachable = Some(index);
                    PveError::not_sent(&call.operation, source)
                }
                Err(Failure::Lost(source)) => {
                    self.endpoints.failed(index);
                    let error = PveError::lost(&call.operation, source);
                    if !call.is_repeatable {
                        return Err(error);
                    }
                    error
                }
            };
            last = Some(failure);
        }
        Err(last.unwrap_or_else(|| PveError::not_sent(&call.operation, NotSent::Closed)))
    }

    /// Sends the request to one endpoint, on an idle connection or a new one.
    async fn attempt(
        &self,
        index: usize,
        call: &Call,
        auth: &AuthHeaders,
    ) -> Result<Reply, Failure> {
        let contact = &self.endpoints.all[index];
        let _turn = contact.gate.acquire().await.expect("invariant: never closed");
        let age = if call.is_repeatable { WARM } else { FRESH };
        let mut waiting = contact.pool.take(age);
        loop {
            let is_new = waiting.is_none();
            let mut connection = match waiting.take() {
                Some(connection) => connection,
                None => open(&contact.endpoint, &self.tls, self.timeouts.connect)
                    .await
                    .map_err(Failure::NotSent)?,
            };
            let request = call.http(&contact.endpoint, auth);
            let sent = Arc::default();
            match exchange(&mut connection, request, &sent, self.timeouts.answer).await {
                Ok(reply) => {
                    contact.pool.put(connection);
                    return Ok(reply);
                }
                Err(ExchangeError::Lost(lost)) => return Err(Failure::Lost(lost)),
                Err(ExchangeError::NotSent) if is_new => {
                    return Err(Failure::NotSent(NotSent::Closed));
                }
                // The server had closed the idle connection, and the request was not sent.
                Err(ExchangeError::NotSent) => {}
            }
        }
    }
}

/// Whether a gateway in front of this endpoint failed, so that the request may succeed through another endpoint.
fn is_gateway(error: &PveError) -> bool {
    matches!(error, PveError::MaybeApplied { source: Lost::Proxy { .. }, .. })
        && !error.is_node_scoped()
}
