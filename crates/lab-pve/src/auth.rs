//! Who is calling: API tokens, tickets, and the second token that keeps foreign web pages out.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::http::unescape;
use super::world::{Caller, World};

/// In seconds.
const LIFETIME: u64 = 2 * 60 * 60;
/// How far ahead of ours another host's clock may be, in seconds.
const GRACE: u64 = 300;

/// How long the seed of [`Keys`] is.
pub const KEY_BYTES: usize = 64;

/// Calls that anybody may make, without being known.
const OPEN: [(&str, &str); 6] = [
    ("GET", "/access/domains"),
    ("GET", "/access/ticket"),
    ("POST", "/access/ticket"),
    ("POST", "/access/vncticket"),
    ("POST", "/access/openid/login"),
    ("POST", "/access/openid/auth-url"),
];

/// What a client shows.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) ticket: Option<String>,
    /// `USER@REALM!ID=SECRET`.
    pub(crate) token: Option<String>,
    pub(crate) csrf: Option<String>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    NoTicket,
    Failed,
    Csrf,
}

/// The keys that sign tickets. A lab that is started again from its state has the same.
pub struct Keys {
    ticket: hmac::Key,
    csrf: hmac::Key,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Stranger {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NoTicket => "No ticket",
            Self::Failed => "Authentication failed!",
            Self::Csrf => "Permission denied - invalid csrf token",
        }
    }
}

impl Credentials {
    /// From the headers. A ticket goes before a token.
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

/// What stands behind `key=` or `key `, up to a semicolon.
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
    /// Of a seed of [`KEY_BYTES`].
    pub fn new(seed: &[u8]) -> Self {
        let (ticket, csrf) = seed.split_at(seed.len() / 2);
        let key = |bytes| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Self { ticket: key(ticket), csrf: key(csrf) }
    }

    /// Lets a caller in, or nobody in particular where that is enough.
    pub(crate) fn admit(
        &self,
        world: &World,
        method: &str,
        path: &str,
        shown: &Credentials,
        now: u64,
    ) -> Result<Option<Caller>, Stranger> {
        if OPEN.contains(&(method, path)) {
            return Ok(None);
        }
        if let Some(token) = &shown.token {
            return token_of(world, token, now).map(Some).ok_or(Stranger::Failed);
        }
        let ticket = shown.ticket.as_deref().ok_or(Stranger::NoTicket)?;
        let user = self.user_of(ticket, now).filter(|user| is_active(world, user, now));
        let user = user.ok_or(Stranger::Failed)?;
        // A web page's form cannot send the header along with a file.
        let needs_csrf = method != "GET" && !is_upload(method, path);
        if needs_csrf && !self.is_csrf_of(&user, shown.csrf.as_deref().unwrap_or_default(), now) {
            return Err(Stranger::Csrf);
        }
        Ok(Some(Caller { user, token: None }))
    }

    /// The user's name, if this is the password, or a ticket of before.
    pub(crate) fn log_in(
        &self,
        world: &World,
        name: &str,
        realm: Option<&str>,
        password: &str,
        now: u64,
    ) -> Option<String> {
        let user = realm.map_or_else(|| name.to_owned(), |realm| format!("{name}@{realm}"));
        if !is_active(world, &user, now) {
            return None;
        }
        let known = world.access.users.get(&user)?.password.as_deref();
        let matches = known.is_some_and(|known| same(known, password));
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

    /// Whose ticket it is, if it is one of ours and still good.
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
        let is_ours = hmac::verify(&self.csrf, signed.as_bytes(), &signature).is_ok();
        is_ours && is_fresh(time, now)
    }
}

/// Uploads are told apart by their path alone, before anybody looks at the route.
pub(crate) fn is_upload(method: &str, path: &str) -> bool {
    upload_storage(method, path).is_some()
}

/// The storage that a file is uploaded to.
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
    time < now.saturating_add(GRACE) && now.saturating_sub(time) < LIFETIME
}

fn token_of(world: &World, token: &str, now: u64) -> Option<Caller> {
    let (id, secret) = token.rsplit_once('=')?;
    let known = world.access.tokens.get(id)?;
    let good = world.is_usable(id, now) && same(&known.secret, secret);
    good.then(|| Caller::parse(id))
}

impl World {
    /// Whether this is a token that lets somebody in.
    pub fn is_usable(&self, token: &str, now: u64) -> bool {
        let known = self.access.tokens.get(token);
        known.is_some_and(|known| known.expires == 0 || known.expires >= now)
            && is_active(self, &Caller::parse(token).user, now)
    }
}

fn is_active(world: &World, user: &str, now: u64) -> bool {
    let known = world.access.users.get(user);
    known.is_some_and(|user| user.enabled && (user.expires == 0 || user.expires >= now))
}

/// Takes as long however much of it is right.
fn same(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_headers() {
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
    fn tickets_are_good_for_two_hours_and_for_their_owner() {
        let keys = Keys::new(&[7; KEY_BYTES]);
        let start = 0x6735_f0a1;
        let ticket = keys.ticket("root@pam", start);
        assert!(ticket.starts_with("PVE:root@pam:6735F0A1::"), "{ticket}");
        assert_eq!(keys.user_of(&ticket, start + LIFETIME - 1).unwrap(), "root@pam");
        assert_eq!(keys.user_of(&ticket, start + LIFETIME), None);
        assert_eq!(keys.user_of(&ticket, start - GRACE - 1), None);
        assert_eq!(Keys::new(&[8; KEY_BYTES]).user_of(&ticket, start), None);
        assert_eq!(keys.user_of(&ticket.replace("root", "toor"), start), None);

        let csrf = keys.csrf("root@pam", start);
        assert!(keys.is_csrf_of("root@pam", &csrf, start + 5));
        assert!(!keys.is_csrf_of("a@pve", &csrf, start + 5));
        assert!(!keys.is_csrf_of("root@pam", &csrf, start + LIFETIME));
        assert!(!keys.is_csrf_of("root@pam", "", start));
    }

    #[test]
    fn uploads_are_known_by_their_path() {
        assert_eq!(upload_storage("POST", "/nodes/pve/storage/local/upload"), Some("local"));
        assert_eq!(upload_storage("PUT", "/nodes/pve/storage/local/upload"), None);
        assert_eq!(upload_storage("POST", "/nodes/pve/storage/local/upload/"), None);
        assert_eq!(upload_storage("POST", "/nodes//storage/local/upload"), None);
    }
}
