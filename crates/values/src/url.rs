//! HTTP URLs. All code of talmox uses this parser, except for machine configs.
//!
//! Talos merges the URLs in a machine config part by part, as Go parses them, and `talmox-talos-config` does the same.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::address::{Address, Host};

/// URL with the scheme `http` or `https`. `Display` shows the whole URL; [`HttpUrl::shown`] is for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    pub https: bool,
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// Path, query and fragment. Starts with `/`, `?` or `#`, or is empty.
    pub path: String,
}

/// Reason why a text is not a URL that talmox can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the address does not start with `https://`")]
    NoScheme,
    #[error("`{0}://` is neither http nor https")]
    OtherScheme(String),
    #[error("credentials do not belong into an address")]
    Credentials,
    #[error("`{0}` is not an IPv6 address")]
    NotIpv6(String),
    #[error("an IPv6 address is written in brackets")]
    NoBrackets,
    #[error("the host name is missing or not one")]
    BadHost,
    #[error("`{0}` is not a port number")]
    BadPort(String),
    #[error("not an address such as `https://host/path`")]
    Malformed,
}

impl HttpUrl {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (https, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some((scheme, _)) => return Err(UrlError::OtherScheme(scheme.to_owned())),
            None => return Err(UrlError::NoScheme),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // White space or a control character in the path would end the first line of a request.
        if path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Malformed);
        }
        let (host, port) = parse_authority(authority)?;
        Ok(Self { https, host, port, path: path.to_owned() })
    }

    /// URL that a `Location` header in an answer from this URL refers to.
    pub fn join(&self, location: &str) -> Result<Self, UrlError> {
        let is_absolute =
            location.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?', '#']));
        if is_absolute {
            return Self::parse(location);
        }
        let scheme = self.scheme();
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        let origin = Self { path: String::new(), ..self.clone() };
        if location.starts_with('/') {
            return Self::parse(&format!("{origin}{location}"));
        }
        let target = self.target();
        let path = target.split('?').next().unwrap_or_default();
        let folder = &path[..=path.rfind('/').unwrap_or_default()];
        Self::parse(&format!("{origin}{folder}{location}"))
    }

    /// Host as an IP address; `None` if the host is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Address to connect to.
    pub fn address(&self) -> Address {
        Address::new(&self.host, self.port.unwrap_or(self.default_port()))
    }

    /// Value of the `Host` header. The port is omitted if it is the default port of the scheme.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) if port != self.default_port() => self.address().to_string(),
            _ => Host(&self.host).to_string(),
        }
    }

    /// Path and query of a request. They start with a slash and contain no fragment.
    pub fn target(&self) -> String {
        let target = self.path.split('#').next().unwrap_or_default();
        let slash = if target.starts_with('/') { "" } else { "/" };
        format!("{slash}{target}")
    }

    /// Query of the URL; empty if the URL has none. The query may be a secret, for example a signature or a token.
    pub fn query(&self) -> &str {
        let target = self.path.split('#').next().unwrap_or_default();
        target.split_once('?').map_or("", |(_, query)| query)
    }

    /// URL for messages, without the query, because the query may be a secret.
    pub fn shown(&self) -> String {
        let target = self.target();
        let path = target.split('?').next().unwrap_or_default();
        format!("{}://{}{path}", self.scheme(), self.authority())
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    fn default_port(&self) -> u16 {
        if self.https { 443 } else { 80 }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), Host(&self.host))?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`.
pub fn parse_authority(text: &str) -> Result<(String, Option<u16>), UrlError> {
    if text.contains('@') {
        return Err(UrlError::Credentials);
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(UrlError::Malformed)?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(UrlError::NotIpv6(host.to_owned()));
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(UrlError::Malformed),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(UrlError::NoBrackets),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(UrlError::BadHost);
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Some(number),
            _ => return Err(UrlError::BadPort(port.to_owned())),
        },
    };
    Ok((host.to_owned(), port))
}

/// Text for messages. If `text` is a URL, the result has no user, password, query and fragment, because they may be
/// secrets.
pub fn shown_url(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    without_user(text)
}

/// Text without user and password, if it is a URL.
pub fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn a_url_is_shown_as_it_was_written() {
        for text in
            ["https://10.0.0.20:6443", "http://x", "https://[fd00::1]:6443/a?b", "https://h/#c"]
        {
            assert_eq!(url(text).to_string(), text);
        }
    }

    #[test]
    fn each_error_names_its_cause() {
        for (text, error) in [
            ("", UrlError::NoScheme),
            ("10.0.0.20:6443", UrlError::NoScheme),
            ("ftp://x/", UrlError::OtherScheme("ftp".to_owned())),
            ("https://", UrlError::BadHost),
            ("https://u:p@x", UrlError::Credentials),
            ("https://x:0", UrlError::BadPort("0".to_owned())),
            ("https://x:y", UrlError::BadPort("y".to_owned())),
            ("https://fd00::1", UrlError::NoBrackets),
            ("https://[fd00]", UrlError::NotIpv6("fd00".to_owned())),
            ("https://[fd00::1", UrlError::Malformed),
            ("https://[fd00::1]x", UrlError::Malformed),
            ("http://a b/", UrlError::BadHost),
            ("http://a/\r\nX", UrlError::Malformed),
            ("http://a/b c", UrlError::Malformed),
        ] {
            assert_eq!(HttpUrl::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_request_has_the_port_of_the_scheme_and_no_fragment() {
        let secret = url("https://factory.talos.dev/image/x?token=hunter2#y");
        assert_eq!(secret.address(), Address::new("factory.talos.dev", 443));
        assert_eq!(secret.authority(), "factory.talos.dev");
        assert_eq!(secret.target(), "/image/x?token=hunter2");
        assert_eq!(secret.query(), "token=hunter2");
        assert_eq!(secret.shown(), "https://factory.talos.dev/image/x");
        let plain = url("http://[fd00::1]:8080");
        assert_eq!(plain.address(), Address::new("fd00::1", 8080));
        assert_eq!((plain.authority().as_str(), plain.target().as_str()), ("[fd00::1]:8080", "/"));
        assert_eq!(plain.ip(), Some("fd00::1".parse().unwrap()));
        assert_eq!(url("http://[::1]:80/").authority(), "[::1]");
        assert_eq!(url("http://host?q").target(), "/?q");
        assert_eq!(url("http://host:443").authority(), "host:443");
    }

    #[test]
    fn redirects_are_resolved() {
        let from = url("https://host:444/a/b?c");
        let to = |location| from.join(location).map(|url| url.to_string());
        assert_eq!(to("/x"), Ok("https://host:444/x".to_owned()));
        assert_eq!(to("x"), Ok("https://host:444/a/x".to_owned()));
        assert_eq!(to("//other/x"), Ok("https://other/x".to_owned()));
        assert_eq!(to("http://other/x?s=1"), Ok("http://other/x?s=1".to_owned()));
        assert_eq!(to("/x?to=http://other"), Ok("https://host:444/x?to=http://other".to_owned()));
        assert_eq!(
            url("http://host").join("x").map(|url| url.to_string()),
            Ok("http://host/x".into())
        );
        assert_eq!(to("/x\r\nHost: y"), Err(UrlError::Malformed));
    }

    #[test]
    fn messages_have_no_secrets() {
        assert_eq!(shown_url("https://me:hunter2@x/y?sig=hunter3#z"), "https://x/y");
        assert_eq!(shown_url("not a URL?hunter2"), "not a URL");
        assert_eq!(without_user("http://me:pw@host?q=a@b"), "http://host?q=a@b");
        assert_eq!(without_user("http://host/a@b"), "http://host/a@b");
    }

    proptest::proptest! {
        #[test]
        fn a_parsed_text_is_shown_unchanged(text in "https?://[a-z0-9.:@\\[\\]-]{0,12}[/?#]?[ -~]{0,12}") {
            if let Ok(url) = HttpUrl::parse(&text) {
                proptest::prop_assert_eq!(HttpUrl::parse(&url.to_string()), Ok(url));
            }
        }
    }
}
