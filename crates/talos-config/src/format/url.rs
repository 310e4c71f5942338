//! Parsing and writing of URLs as in Go.
//!
//! The parts of a URL matter, because Talos merges URLs part by part: a patch without a path keeps the existing path.

use std::fmt;

/// Parsed URL. `path` and `fragment` are unescaped. The `raw_` fields contain the original text if Go would escape it
/// differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    opaque: String,
    user: Option<String>,
    pub(crate) host: String,
    pub(crate) path: Vec<u8>,
    raw_path: String,
    omit_host: bool,
    force_query: bool,
    pub(crate) query: String,
    fragment: Vec<u8>,
    raw_fragment: String,
}

impl Url {
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        parse(source).map_err(|reason| format!("parse {source:?}: {reason}"))
    }

    /// Host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = match self.port() {
            Some(port) => &self.host[..self.host.len() - port.len() - 1],
            None => self.host.strip_suffix(':').unwrap_or(&self.host),
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    pub(crate) fn port(&self) -> Option<&str> {
        let (_, port) = self.host.rsplit_once(':')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        is_port.then_some(port)
    }

    /// Merges a patch into the URL, as Talos does. If both URLs have credentials, they cannot be merged.
    pub(crate) fn merge(&mut self, patch: &Self) -> Result<(), String> {
        fn take<T: Clone + Default + PartialEq>(left: &mut T, right: &T) {
            if *right != T::default() {
                left.clone_from(right);
            }
        }
        take(&mut self.scheme, &patch.scheme);
        take(&mut self.opaque, &patch.opaque);
        match (&self.user, &patch.user) {
            (_, None) => {}
            (None, Some(_)) => self.user.clone_from(&patch.user),
            (Some(_), Some(_)) => {
                return Err("merge not possible, credentials of an URL are not settable".into());
            }
        }
        take(&mut self.host, &patch.host);
        take(&mut self.path, &patch.path);
        take(&mut self.raw_path, &patch.raw_path);
        self.omit_host = patch.omit_host;
        self.force_query = patch.force_query;
        take(&mut self.query, &patch.query);
        take(&mut self.fragment, &patch.fragment);
        take(&mut self.raw_fragment, &patch.raw_fragment);
        Ok(())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if self.opaque.is_empty() {
            self.write_authority(&mut text);
            let path = spelled(&self.path, &self.raw_path, Part::Path);
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                text.push('/');
            }
            let first = path.split('/').next().unwrap_or_default();
            if text.is_empty() && first.contains(':') {
                text.push_str("./");
            }
            text.push_str(&path);
        } else {
            text.push_str(&self.opaque);
        }
        if self.force_query || !self.query.is_empty() {
            text.push('?');
            text.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            text.push_str(&spelled(&self.fragment, &self.raw_fragment, Part::Fragment));
        }
        out.write_str(&text)
    }
}

impl Url {
    fn write_authority(&self, text: &mut String) {
        let nothing = self.host.is_empty() && self.user.is_none();
        if nothing && (self.scheme.is_empty() || self.omit_host) {
            return;
        }
        if !nothing || !self.path.is_empty() {
            text.push_str("//");
        }
        if let Some(user) = &self.user {
            text.push_str(user);
            text.push('@');
        }
        text.push_str(&escape(self.host.as_bytes(), Part::Host));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Path,
    Fragment,
}

fn parse(source: &str) -> Result<Url, String> {
    if source.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (source, fragment) = source.split_once('#').unwrap_or((source, ""));
    let mut url = Url::default();
    (url.fragment, url.raw_fragment) = unescaped(fragment, Part::Fragment)?;
    let (scheme, mut rest) = split_scheme(source)?;
    url.scheme = scheme.to_ascii_lowercase();
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        url.force_query = true;
        rest = &rest[..rest.len() - 1];
    } else if let Some((before, query)) = rest.split_once('?') {
        query.clone_into(&mut url.query);
        rest = before;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        let first = rest.split('/').next().unwrap_or_default();
        if first.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if let Some(after) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !after.starts_with('/'))
    {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user {
            if !user.bytes().all(is_user_byte) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            url.user = Some(user.to_owned());
        }
        url.host = parse_host(host)?;
        rest = path;
    } else if !url.scheme.is_empty() && rest.starts_with('/') {
        url.omit_host = true;
    }
    (url.path, url.raw_path) = unescaped(rest, Part::Path)?;
    Ok(url)
}

fn split_scheme(source: &str) -> Result<(&str, &str), String> {
    for (at, byte) in source.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&source[..at], &source[at + 1..])),
            _ => break,
        }
    }
    Ok(("", source))
}

fn parse_host(host: &str) -> Result<String, String> {
    let after = match host.strip_prefix('[') {
        Some(inner) => {
            let Some((_, after)) = inner.rsplit_once(']') else {
                return Err("missing ']' in host".to_owned());
            };
            after
        }
        None => match host.find(':') {
            Some(colon) => &host[colon..],
            None => "",
        },
    };
    let is_port = after
        .strip_prefix(':')
        .map_or(after.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {after:?} after host"));
    }
    if let Some(wrong) =
        host.chars().find(|c| c.is_ascii() && *c != '%' && must_escape(*c as u8, Part::Host))
    {
        return Err(format!("invalid character {:?} in host name", wrong.to_string()));
    }
    let zone = if host.starts_with('[') { host.find("%25") } else { None };
    let (name, zone) = host.split_at(zone.unwrap_or(host.len()));
    reject_ascii_escapes(name)?;
    let (mut bytes, _) = unescaped(name, Part::Host)?;
    bytes.extend(unescaped(zone, Part::Host)?.0);
    String::from_utf8(bytes).map_err(|_| "invalid host".to_owned())
}

/// Rejects escapes of ASCII characters in a host name, except for the percent sign.
fn reject_ascii_escapes(name: &str) -> Result<(), String> {
    for (at, _) in name.match_indices('%') {
        let escape = name.get(at..at + 3).unwrap_or(&name[at..]);
        if escape != "%25" && escape[1..].starts_with(|c: char| c.is_digit(8)) {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

/// Bytes of an escaped text. The second value is the original text if Go would escape the bytes differently, otherwise
/// empty.
fn unescaped(source: &str, part: Part) -> Result<(Vec<u8>, String), String> {
    let mut bytes = Vec::with_capacity(source.len());
    let mut rest = source.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let decoded = after
            .get(..2)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(decoded) = decoded else {
            let end = rest.len().min(3);
            let shown = String::from_utf8_lossy(&rest[..end]);
            return Err(format!("invalid URL escape {shown:?}"));
        };
        bytes.push(decoded);
        rest = &after[2..];
    }
    let usual = escape(&bytes, part) == source;
    Ok((bytes, if usual { String::new() } else { source.to_owned() }))
}

fn spelled(bytes: &[u8], raw: &str, part: Part) -> String {
    let is_valid = |byte: u8| b"!$&'()*+,;=:@[]%".contains(&byte) || !must_escape(byte, part);
    let raw_fits = !raw.is_empty()
        && raw.bytes().all(is_valid)
        && unescaped(raw, part).is_ok_and(|(meant, _)| meant == bytes);
    if raw_fits {
        return raw.to_owned();
    }
    if part == Part::Path && bytes == b"*" {
        return "*".to_owned();
    }
    escape(bytes, part)
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if must_escape(byte, part) {
            text.push_str(&format!("%{byte:02X}"));
        } else {
            text.push(char::from(byte));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_spelling() {
        for url in [
            "https://10.5.0.2:6443",
            "https://[fd00::1]:6443",
            "tcp://[fdae:41e4:649b:9303::1]:8092/",
            "https://siderolink.api/?jointoken=secret&foo=bar",
            "https://user:pw@host/a/b?x=1#frag",
            "grpc://172.20.0.1:4000",
            "mailto:a@b",
            "/just/a/path",
            "",
            "https://host/a%2Fb",
            "udp://host:1234/?",
        ] {
            assert_eq!(Url::parse(url).map(|url| url.to_string()).as_deref(), Ok(url));
        }
        let written = |url: &str| Url::parse(url).unwrap().to_string();
        assert_eq!(written("HTTPS://Host/a b"), "https://Host/a%20b");
        for wrong in
            ["10.5.0.2:6443", ":foo", "http://a b/", "http://h:x/", "http://h/%zz", "a\tb", "//%68"]
        {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn merging_goes_part_by_part() {
        let mut url = Url::parse("https://a:6443/path?q=1").unwrap();
        url.merge(&Url::parse("http://b").unwrap()).unwrap();
        assert_eq!(url.to_string(), "http://b/path?q=1");
        let url = Url::parse("https://[fd00::1]:6443").unwrap();
        assert_eq!((url.hostname(), url.port()), ("fd00::1", Some("6443")));
    }
}
