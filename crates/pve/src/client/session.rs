//! Being let in: by token as it is, by ticket after a login.

use talmox_pve_types::SecretText;
use talmox_pve_types::api::access::{self, Ticket};

use super::Inner;
use super::auth::{Credentials, Pass, RENEW_AFTER, Session};
use super::send::Call;
use super::trace::traced;
use crate::error::{NotSent, PveError};

impl Inner {
    /// What to show with a request. `refused` is the ticket that the server no longer takes.
    pub(super) async fn pass(
        &self,
        operation: &str,
        refused: Option<u64>,
    ) -> Result<Pass, PveError> {
        let (username, password) = match &self.credentials {
            Credentials::Token(token) => return Ok(Pass::of_token(token)),
            Credentials::Password { username, password } => (username, password),
        };
        // Held during the login: others wait for its outcome in place of logging in as well.
        let mut session = self.session.lock().await;
        let now = self.clock.moment();
        if let Some(session) = &*session
            && refused != Some(session.nth)
            && now.since(session.since) < RENEW_AFTER
        {
            return Ok(Pass::of_session(session));
        }
        let nth = session.as_ref().map_or(0, |session| session.nth + 1);
        // An ageing ticket vouches for its successor; one that was refused does not.
        let old = session.take().filter(|session| refused != Some(session.nth));
        let renewed = match old {
            Some(old) => self.log_in(operation, username, &old.ticket.ticket).await.ok(),
            None => None,
        };
        let ticket = match renewed {
            Some(ticket) => ticket,
            None => self.log_in(operation, username, password).await?,
        };
        let new = Session { ticket, since: now, nth };
        let pass = Pass::of_session(&new);
        *session = Some(new);
        Ok(pass)
    }

    /// A login changes nothing, so its failure is never one of the request that it was for.
    async fn log_in(
        &self,
        operation: &str,
        username: &str,
        password: &SecretText,
    ) -> Result<Ticket, PveError> {
        let request = access::login(username, password);
        let call = Call::of(&request).repeatable();
        let pass = Pass::default();
        let answer = match traced(&call.operation, true, self.route(&call, &pass)).await {
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
