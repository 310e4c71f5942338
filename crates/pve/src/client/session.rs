//! Authentication. A token is sent with each request. A ticket needs a login first.

use talmox_pve_types::SecretText;
use talmox_pve_types::api::access::{self, Ticket};

use super::Inner;
use super::auth::{AuthHeaders, Credentials, RENEW_AFTER, Session};
use super::send::Call;
use super::trace::traced;
use crate::error::{NotSent, PveError};

impl Inner {
    /// Authentication headers for a request. `rejected` is the number of a ticket that the server rejected.
    pub(super) async fn auth(
        &self,
        operation: &str,
        rejected: Option<u64>,
    ) -> Result<AuthHeaders, PveError> {
        let (username, password) = match &self.credentials {
            Credentials::Token(token) => return Ok(AuthHeaders::of_token(token)),
            Credentials::Password { username, password } => (username, password),
        };
        // The lock is held during the login. Other requests wait for the ticket of this login and do not log in
        // themselves.
        let mut session = self.session.lock().await;
        let now = self.clock.moment();
        if let Some(session) = &*session
            && rejected != Some(session.number)
            && now.since(session.since) < RENEW_AFTER
        {
            return Ok(AuthHeaders::of_session(session));
        }
        let number = session.as_ref().map_or(0, |session| session.number + 1);
        // A valid ticket can be renewed without the password. A rejected ticket cannot be renewed.
        let old = session.take().filter(|session| rejected != Some(session.number));
        let renewed = match old {
            Some(old) => self.log_in(operation, username, &old.ticket.ticket).await.ok(),
            None => None,
        };
        let ticket = match renewed {
            Some(ticket) => ticket,
            None => self.log_in(operation, username, password).await?,
        };
        let new = Session { ticket, since: now, number };
        let auth = AuthHeaders::of_session(&new);
        *session = Some(new);
        Ok(auth)
    }

    /// Logs in. A failed login is reported as "not sent" for the request that needed it, because a login changes
    /// nothing.
    async fn log_in(
        &self,
        operation: &str,
        username: &str,
        password: &SecretText,
    ) -> Result<Ticket, PveError> {
        let request = access::login(username, password);
        let call = Call::of(&request).repeatable();
        let auth = AuthHeaders::default();
        let answer = match traced(&call.operation, true, self.route(&call, &auth)).await {
            Ok(answer) => answer,
            Err(PveError::NotSent { source, .. }) => {
                return Err(PveError::not_sent(operation, source));
            }
            Err(error @ PveError::Rejected(_)) => return Err(error),
            Err(error) => {
                return Err(PveError::not_sent(operation, NotSent::Login(Box::new(error))));
            }
        };
        request.decode(&answer).map_err(|error| {
            let error = PveError::lost(&call.operation, error);
            PveError::not_sent(operation, NotSent::Login(Box::new(error)))
        })
    }
}
