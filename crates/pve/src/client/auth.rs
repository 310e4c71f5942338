use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use talmox_clock::Moment;
use talmox_pve_types::SecretText;
use talmox_pve_types::api::access::Ticket;
use talmox_pve_types::encode;

/// Age at which a ticket is renewed. Proxmox accepts a ticket for two hours.
pub(super) const RENEW_AFTER: Duration = Duration::from_mins(90);

/// Credentials for the Proxmox API.
#[derive(Clone, Debug)]
pub enum Credentials {
    Token(ApiToken),
    /// Login with a ticket, as in the web interface. This is the only way to act as root@pam.
    Password {
        username: String,
        password: SecretText,
    },
}

/// API token: `user@realm!id=secret`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiToken {
    id: String,
    secret: SecretText,
}

/// Error for a text that is not an API token. The error does not contain the text, because most of the text is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API token does not have the form user@realm!id=secret")]
pub struct BadToken;

impl ApiToken {
    /// Public part of the token: `user@realm!id`.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl FromStr for ApiToken {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let (id, secret) = text.trim().split_once('=').ok_or(BadToken)?;
        let (user, token) = id.split_once('!').ok_or(BadToken)?;
        let (name, realm) = user.rsplit_once('@').ok_or(BadToken)?;
        let is_plain = |c: char| c.is_ascii_graphic() && c != '%';
        let is_sound = ![name, realm, secret].contains(&"")
            && token.len() >= 2
            && text.trim().chars().all(is_plain);
        if is_sound {
            Ok(Self { id: id.to_owned(), secret: SecretText::new(secret) })
        } else {
            Err(BadToken)
        }
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiToken({}={:?})", self.id, self.secret)
    }
}

/// Ticket and the time of its login.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) ticket: Ticket,
    pub(super) since: Moment,
    /// Number of the ticket. If several requests are rejected with the same ticket, only one of them logs in again.
    pub(super) number: u64,
}

/// Authentication headers of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct AuthHeaders {
    pub(super) headers: HeaderMap,
    /// Number of the ticket, if the request uses one.
    pub(super) number: Option<u64>,
}

impl AuthHeaders {
    pub(super) fn of_token(token: &ApiToken) -> Self {
        let value = format!("PVEAPIToken={}={}", token.id, token.secret.expose());
        let mut headers = HeaderMap::new();
        insert(&mut headers, AUTHORIZATION, value);
        Self { headers, number: None }
    }

    pub(super) fn of_session(session: &Session) -> Self {
        let mut headers = HeaderMap::new();
        let ticket = encode::component(session.ticket.ticket.expose());
        insert(&mut headers, COOKIE, format!("PVEAuthCookie={ticket}"));
        let csrf = session.ticket.csrf.expose().to_owned();
        insert(&mut headers, HeaderName::from_static("csrfpreventiontoken"), csrf);
        Self { headers, number: Some(session.number) }
    }
}

/// Adds a header that debug output does not show. If the value is not allowed in a header, no header is added, and the
/// server rejects the request.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(mut value) = HeaderValue::try_from(value) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "talmox@pve!ci=01234567-89ab-cdef-0123-456789abcdef";

    #[test]
    fn tokens_are_parsed_and_not_shown() {
        let token: ApiToken = TOKEN.parse().unwrap();
        assert_eq!(token.id(), "talmox@pve!ci");
        let auth = AuthHeaders::of_token(&token);
        assert_eq!(auth.headers[AUTHORIZATION].to_str().unwrap(), format!("PVEAPIToken={TOKEN}"));
        let shown = format!("{:?} {:?} {auth:?}", token, Credentials::Token(token.clone()));
        assert!(!shown.contains("89ab"), "{shown}");
        for odd in
            ["", "x", "a@b=c", "a@b!c=d", "@b!cc=d", "a@b!cc=", "a@b!cc=d e", "a@b!cc=d\r\nx"]
        {
            assert_eq!(odd.parse::<ApiToken>(), Err(BadToken), "{odd}");
        }
    }

    #[test]
    fn a_ticket_is_sent_as_a_cookie() {
        let clock = talmox_clock::Clock::real();
        let ticket = Ticket {
            ticket: SecretText::new("PVE:root@pam:65F0::a+b="),
            csrf: SecretText::new("65F0:c/d"),
        };
        let session = Session { ticket, since: clock.moment(), number: 3 };
        let auth = AuthHeaders::of_session(&session);
        assert_eq!(auth.headers[COOKIE], "PVEAuthCookie=PVE%3Aroot%40pam%3A65F0%3A%3Aa%2Bb%3D");
        assert_eq!(auth.headers["CSRFPreventionToken"], "65F0:c/d");
        let shown = format!("{session:?} {auth:?}");
        assert!(
            !shown.contains("a+b") && !shown.contains("c/d") && !shown.contains("2Bb"),
            "{shown}"
        );
        let password = Credentials::Password {
            username: "root@pam".to_owned(),
            password: SecretText::new("hunter2"),
        };
        assert!(!format!("{password:?}").contains("hunter2"));
    }
}
