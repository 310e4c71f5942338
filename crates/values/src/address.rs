//! Address of a server: host and port.

use std::fmt;

/// Address of a server. The certificate of a TLS server must contain the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Parses `host`, `host:port`, `fd00::1` or `[fd00::1]:port`. If the text has no port, `port` is used.
    pub fn parse(text: &str, port: u16) -> Self {
        let (host, given) = split(text);
        Self::new(host, given.unwrap_or(port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Host(&self.host), self.port)
    }
}

/// Host in the form of a URL, with brackets around an IPv6 address.
pub(crate) struct Host<'a>(pub(crate) &'a str);

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

fn split(text: &str) -> (&str, Option<u16>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, port.parse().ok()),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_optional() {
        for (text, shown) in [
            ("10.0.0.11", "10.0.0.11:50000"),
            ("cp-1.example:4000", "cp-1.example:4000"),
            ("fd00::1", "[fd00::1]:50000"),
            ("[fd00::1]:7", "[fd00::1]:7"),
            ("[fd00::1]", "[fd00::1]:50000"),
        ] {
            assert_eq!(Address::parse(text, 50000).to_string(), shown);
        }
    }
}
