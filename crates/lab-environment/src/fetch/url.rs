/// Where to get something: `http://host:port/path?query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) tls: bool,
    /// As it is written, in lower case; an IPv6 address in its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// With the query, without the fragment.
    pub(crate) path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest.as_bytes()[at] == b'/' => (&rest[..at], rest[at..].to_owned()),
            Some(at) => (&rest[..at], format!("/{}", &rest[at..])),
            None => (rest, "/".to_owned()),
        };
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let usual = if tls { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        let strange = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || host.contains(strange) || path.contains(strange) {
            return None;
        }
        Some(Self { tls, host: host.to_ascii_lowercase(), port, path })
    }

    /// Where a redirect leads from here.
    pub(crate) fn join(&self, location: &str) -> Option<Self> {
        if location.contains("://") {
            return Self::parse(location);
        }
        let scheme = if self.tls { "https" } else { "http" };
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let folder = self.path.split('?').next().unwrap_or_default();
        let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = match location.strip_prefix('/') {
            Some(path) => format!("/{path}"),
            None => format!("{folder}/{location}"),
        };
        Self::parse(&format!("{scheme}://{}:{}{path}", self.host, self.port))
    }

    /// As the `Host` header has it: the port only where it is not the usual one.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(bool, String, u16, String)> {
        Url::parse(text).map(|url| (url.tls, url.host, url.port, url.path))
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = |tls, host: &str, port, path: &str| Some((tls, host.into(), port, path.into()));
        assert_eq!(
            parts("https://Factory.example/a/b?c#d"),
            url(true, "factory.example", 443, "/a/b?c")
        );
        assert_eq!(parts("http://127.0.0.1:8080"), url(false, "127.0.0.1", 8080, "/"));
        assert_eq!(parts("http://[::1]:81/x"), url(false, "[::1]", 81, "/x"));
        assert_eq!(parts("http://[::1]/x"), url(false, "[::1]", 80, "/x"));
        assert_eq!(parts("http://me:pw@host?q"), url(false, "host", 80, "/?q"));
        for text in
            ["", "x", "ftp://a/b", "http://", "http://a b/", "http://a:b/", "http://a/\r\nX"]
        {
            assert_eq!(parts(text), None, "{text}");
        }
    }

    #[test]
    fn redirects_lead_on() {
        let from = Url::parse("https://host:444/a/b?c").unwrap();
        let to = |location| from.join(location).map(|url| (url.authority(), url.path));
        assert_eq!(to("/x"), Some(("host:444".into(), "/x".into())));
        assert_eq!(to("x"), Some(("host:444".into(), "/a/x".into())));
        assert_eq!(to("//other/x"), Some(("other".into(), "/x".into())));
        assert_eq!(to("http://other/x"), Some(("other".into(), "/x".into())));
    }
}
