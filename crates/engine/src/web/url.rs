//! Addresses of files, parted. What may be a secret in them (users, passwords, signatures behind the
//! question mark) is sent and never shown.

use std::fmt;

use talmox_plan::url::shown_url;
use talmox_talos_api::Address;

use super::WebError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_secure: bool,
    pub(super) address: Address,
    /// Path and query, as they are sent.
    pub(super) target: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, WebError> {
        let bad = || WebError::BadUrl { url: shown_url(text) };
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let is_secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(bad()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        // Nobody needs to log in to a factory; what looks like it is refused rather than lost.
        if authority.contains('@') {
            return Err(bad());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or_else(bad)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| bad())?,
            None if port.is_empty() => {
                if is_secure {
                    443
                } else {
                    80
                }
            }
            None => return Err(bad()),
        };
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || text.contains(is_odd) {
            return Err(bad());
        }
        let target = target.split('#').next().unwrap_or_default();
        let slash = if target.starts_with('/') { "" } else { "/" };
        let address = Address { host: host.to_owned(), port };
        Ok(Self { is_secure, address, target: format!("{slash}{target}") })
    }

    /// Where a redirect leads.
    pub(super) fn join(&self, location: &str) -> Result<Self, WebError> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let next = if location.contains("://") {
            Self::parse(location)?
        } else if let Some(rest) = location.strip_prefix("//") {
            Self::parse(&format!("{scheme}://{rest}"))?
        } else if location.starts_with('/') {
            Self { target: location.to_owned(), ..self.clone() }
        } else {
            let path = self.target.split('?').next().unwrap_or_default();
            let folder = &path[..=path.rfind('/').unwrap_or_default()];
            Self { target: format!("{folder}{location}"), ..self.clone() }
        };
        // Who asked for a secured connection gets no other.
        if self.is_secure && !next.is_secure {
            return Err(WebError::BadUrl { url: next.to_string() });
        }
        Ok(next)
    }

    /// As the `Host` header has it.
    pub(super) fn authority(&self) -> String {
        let usual = if self.is_secure { 443 } else { 80 };
        let text = self.address.to_string();
        match text.strip_suffix(&format!(":{usual}")) {
            Some(host) => host.to_owned(),
            None => text,
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_usual_ports() {
        let url = Url::parse("https://factory.talos.dev/image/x?token=hunter2#y").unwrap();
        assert_eq!((url.address.port, url.target.as_str()), (443, "/image/x?token=hunter2"));
        assert_eq!((url.authority().as_str(), url.is_secure), ("factory.talos.dev", true));
        assert_eq!(url.to_string(), "https://factory.talos.dev/image/x");
        let url = Url::parse("http://[fd00::1]:8080").unwrap();
        assert_eq!((url.address.host.as_str(), url.target.as_str()), ("fd00::1", "/"));
        assert_eq!(url.authority(), "[fd00::1]:8080");
        for text in
            ["", "x", "ftp://x/", "https://", "https://a:b/", "https://me@x/", "http://a b/"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn redirects_lead_on_but_never_into_the_open() {
        let url = Url::parse("https://a/x/y?z").unwrap();
        assert_eq!(url.join("https://cdn/b?sig=1").unwrap().address.host, "cdn");
        assert_eq!(url.join("/b").unwrap().to_string(), "https://a/b");
        assert_eq!(url.join("b").unwrap().to_string(), "https://a/x/b");
        assert_eq!(url.join("//c/b").unwrap().to_string(), "https://c/b");
        assert!(url.join("http://a/b").is_err());
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let error = Url::parse("https://me:hunter2@x/y?sig=hunter3").unwrap_err().to_string();
        assert!(!error.contains("hunter") && error.contains("https://x/y"), "{error}");
    }
}
