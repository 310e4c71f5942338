//! Authentication: API tokens, tickets and CSRF prevention tokens.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::http::unescape;
use super::pve_state::{Caller, PveState};

/// Lifetime of a ticket in seconds.
const TICKET_LIFETIME: u64 = 2 * 60 * 60;
/// Maximum time in seconds by which the timestamp of a ticket may be in the future.
const CLOCK_TOLERANCE: u64 = 300;

/// Length in bytes of the seed of [`Keys`].
pub const KEY_BYTES: usize = 64;

/// Calls that need no authentication.
const UNAUTHENTICATED_CALLS: [(&str, &str); 6] = [
    ("GET", "/access/domains"),
    ("GET", "/access/ticket"),
    ("POST", "/access/ticket"),
    ("POST", "/access/vncticket"),
    ("POST", "/access/openid/login"),
    ("POST", "/access/openid/auth-url"),
];

/// Credentials in the headers of a request.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) ticket: Option<String>,
    /// `USER@REALM!ID=SECRET`.
    pub(crate) token: Option<String>,
    pub(crate) csrf: Option<String>,
}

/// Reason why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthFailure {
    NoTicket,
    Failed,
    Csrf,
}

/// Keys that sign tickets and CSRF tokens. The keys are part of the saved state of a lab, so tickets stay valid after a
/// restart.
pub struct Keys {
    ticket: hmac::Key,
    csrf: hmac::Key,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl AuthFailure {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NoTicket => "No ticket",
            Self::Failed => "Authentication failed!",
            Self::Csrf => "Permission denied - invalid csrf token",
        }
    }
}

impl Credentials {
    /// Reads the credentials from request headers. A ticket takes precedence over a token.
    pub(crate) fn read(
        cookie: Option<&str>,
        authorization: Option<&str>,
        csrf: Option<&str>,
    ) -> Self {
        let ticket = cookie
            .and_then(|header| value_of(header, "PVEAuthCookie"))
            .or_else(|| authorization.and_then(|header| value_of(header, "PVEAuthCookie")));
        let token = match ticket {
            None => authorization.and_then(|header| value_of(header, "PVEAPIToken")),
            Some(_) => None,
        };
        Self { ticket, token, csrf: csrf.map(str::to_owned) }
    }
}

/// Value after `key=` or `key ` in a header, up to the next semicolon.
fn value_of(header: &str, key: &str) -> Option<String> {
    let mut from = 0;
    loop {
        let at = from + header.get(from..)?.find(key)?;
        let (before, after) = (&header[..at], &header[at + key.len()..]);
        let is_word = before.is_empty() || before.ends_with(|c: char| c.is_ascii_whitespace());
        if is_word && let Some(value) = after.strip_prefix(['=', ' ']) {
            let value = unescape(value.split(';').next().unwrap_or_default());
            return Some(value).filter(|value| !value.is_empty());
        }
        from = at + key.len();
    }
}

impl Keys {
    /// Derives the keys from a seed of [`KEY_BYTES`] bytes.
    pub fn new(seed: &[u8]) -> Self {
        let (ticket, csrf) = seed.split_at(seed.len() / 2);
        let key = |bytes| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Self { ticket: key(ticket), csrf: key(csrf) }
    }

    /// Authenticates a request. The result has no caller if the call needs no authentication.
    pub(crate) fn authenticate(
        &self,
        pve_state: &PveState,
        method: &str,
        path: &str,
        shown: &Credentials,
        now: u64,
    ) -> Result<Option<Caller>, AuthFailure> {
        if UNAUTHENTICATED_CALLS.contains(&(method, path)) {
            return Ok(None);
        }
        if let Some(token) = &shown.token {
            return token_of(pve_state, token, now).map(Some).ok_or(AuthFailure::Failed);
        }
        let ticket = shown.ticket.as_deref().ok_or(AuthFailure::NoTicket)?;
        let user = self.user_of(ticket, now).filter(|user| is_active(pve_state, user, now));
        let user = user.ok_or(AuthFailure::Failed)?;
        // Proxmox requires no CSRF token for uploads, because browsers send uploads from a form.
        let needs_csrf = method != "GET" && !is_upload(method, path);
        if needs_csrf && !self.is_csrf_of(&user, shown.csrf.as_deref().unwrap_or_default(), now) {
            return Err(AuthFailure::Csrf);
        }
        Ok(Some(Caller { user, token: None }))
    }

    /// Checks a login, and returns the user id (`name@realm`). The password may be an earlier ticket that is still valid.
    pub(crate) fn log_in(
        &self,
        pve_state: &PveState,
        name: &str,
        realm: Option<&str>,
        password: &str,
        now: u64,
    ) -> Option<String> {
        let user = realm.map_or_else(|| name.to_owned(), |realm| format!("{name}@{realm}"));
        if !is_active(pve_state, &user, now) {
            return None;
        }
        let known = pve_state.access.users.get(&user)?.password.as_deref();
        let matches = known.is_some_and(|known| secrets_equal(known, password));
        let renewed = || self.user_of(password, now).is_some_and(|owner| owner == user);
        (matches || renewed()).then_some(user)
    }

    pub(crate) fn ticket(&self, user: &str, now: u64) -> String {
        let plain = format!("PVE:{user}:{now:08X}");
        let signature = STANDARD.encode(hmac::sign(&self.ticket, plain.as_bytes()));
        format!("{plain}::{signature}")
    }

    pub(crate) fn csrf(&self, user: &str, now: u64) -> String {
        let time = format!("{now:08X}");
        let tag = hmac::sign(&self.csrf, format!("{time}:{user}").as_bytes());
        format!("{time}:{}", STANDARD_NO_PAD.encode(tag))
    }

    /// User of a ticket that is valid and not expired.
    fn user_of(&self, ticket: &str, now: u64) -> Option<String> {
        let (plain, signature) = ticket.rsplit_once("::")?;
        let signature = STANDARD.decode(signature).ok()?;
        hmac::verify(&self.ticket, plain.as_bytes(), &signature).ok()?;
        let (user, time) = plain.strip_prefix("PVE:")?.rsplit_once(':')?;
        is_fresh(time, now).then(|| user.to_owned())
    }

    fn is_csrf_of(&self, user: &str, token: &str, now: u64) -> bool {
        let Some((time, signature)) = token.split_once(':') else { return false };
        let signature = STANDARD_NO_PAD.decode(signature).unwrap_or_default();
        let signed = format!("{time}:{user}");
        let is_valid = hmac::verify(&self.csrf, signed.as_bytes(), &signature).is_ok();
        is_valid && is_fresh(time, now)
    }
}

/// Whether a request is an upload. The method and path are sufficient to decide this before routing.
pub(crate) fn is_upload(method: &str, path: &str) -> bool {
    upload_storage(method, path).is_some()
}

/// Storage in the path of an upload.
pub(crate) fn upload_storage<'a>(method: &str, path: &'a str) -> Option<&'a str> {
    let mut parts = path.strip_prefix("/nodes/").filter(|_| method == "POST")?.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(node), Some("storage"), Some(storage), Some("upload"), None)
            if !node.is_empty() && !storage.is_empty() =>
        {
            Some(storage)
        }
        _ => None,
    }
}

fn is_fresh(hex: &str, now: u64) -> bool {
    let Ok(time) = u64::from_str_radix(hex, 16) else { return false };
    time < now.saturating_add(CLOCK_TOLERANCE) && now.saturating_sub(time) < TICKET_LIFETIME
}

fn token_of(pve_state: &PveState, token: &str, now: u64) -> Option<Caller> {
    let (id, secret) = token.rsplit_once('=')?;
    let known = pve_state.access.tokens.get(id)?;
    let good = pve_state.is_usable(id, now) && secrets_equal(&known.secret, secret);
    good.then(|| Caller::parse(id))
}

impl PveState {
    /// Whether this token exists and is not expired, and the user of the token is active.
    pub fn is_usable(&self, token: &str, now: u64) -> bool {
        let known = self.access.tokens.get(token);
        known.is_some_and(|known| known.expires == 0 || known.expires >= now)
            && is_active(self, &Caller::parse(token).user, now)
    }
}

fn is_active(pve_state: &PveState, user: &str, now: u64) -> bool {
    let known = pve_state.access.users.get(user);
    known.is_some_and(|user| user.enabled && (user.expires == 0 || user.expires >= now))
}

/// Compares two secrets in constant time.
fn secrets_equal(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_parsed_from_headers() {
        let cookie = "lang=de; PVEAuthCookie=PVE%3Aroot%40pam; other=1";
        assert_eq!(value_of(cookie, "PVEAuthCookie").unwrap(), "PVE:root@pam");
        let both = ["PVEAPIToken=a@pam!b=1-2", "PVEAPIToken a@pam%21b=1-2"];
        for header in both {
            assert_eq!(value_of(header, "PVEAPIToken").unwrap(), "a@pam!b=1-2");
        }
        for header in ["", "xPVEAPIToken=1", "PVEAPIToken", "PVEAPIToken=", "Bearer 1"] {
            assert_eq!(value_of(header, "PVEAPIToken"), None, "{header}");
        }
    }

    #[test]
    fn tickets_expire_after_two_hours_and_are_bound_to_user() {
        let keys = Keys::new(&[7; KEY_BYTES]);
        let start = 0x6735_f0a1;
        let ticket = keys.ticket("root@pam", start);
        assert!(ticket.starts_with("PVE:root@pam:6735F0A1::"), "{ticket}");
        assert_eq!(keys.user_of(&ticket, start + TICKET_LIFETIME - 1).unwrap(), "root@pam");
        assert_eq!(keys.user_of(&ticket, start + TICKET_LIFETIME), None);
        assert_eq!(keys.user_of(&ticket, start - CLOCK_TOLERANCE - 1), None);
        assert_eq!(Keys::new(&[8; KEY_BYTES]).user_of(&ticket, start), None);
        assert_eq!(keys.user_of(&ticket.replace("root", "toor"), start), None);

        let csrf = keys.csrf("root@pam", start);
        assert!(keys.is_csrf_of("root@pam", &csrf, start + 5));
        assert!(!keys.is_csrf_of("a@pve", &csrf, start + 5));
        assert!(!keys.is_csrf_of("root@pam", &csrf, start + TICKET_LIFETIME));
        assert!(!keys.is_csrf_of("root@pam", "", start));
    }

    #[test]
    fn uploads_are_recognized_by_path() {
        assert_eq!(upload_storage("POST", "/nodes/pve/storage/local/upload"), Some("local"));
        assert_eq!(upload_storage("PUT", "/nodes/pve/storage/local/upload"), None);
        assert_eq!(upload_storage("POST", "/nodes/pve/storage/local/upload/"), None);
        assert_eq!(upload_storage("POST", "/nodes//storage/local/upload"), None);
    }
}
