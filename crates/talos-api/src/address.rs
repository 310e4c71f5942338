//! The address of a node: a host and a port.

use std::fmt;

/// The port of the Talos API.
pub const PORT: u16 = 50000;

/// A node by its own address, which is also the name its certificate must bear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, the latter without brackets.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), port: PORT }
    }

    /// Reads `host`, `host:port`, `fd00::1` or `[fd00::1]:port`.
    pub fn parse(text: &str) -> Self {
        let (host, port) = split(text);
        Self { host: host.to_owned(), port: port.unwrap_or(PORT) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `host`, `host:port`, `fd00::1` or `[fd00::1]:port`.
pub(crate) fn split(text: &str) -> (&str, Option<u16>) {
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
    fn a_port_may_be_named() {
        for (text, shown) in [
            ("10.0.0.11", "10.0.0.11:50000"),
            ("cp-1.example:4000", "cp-1.example:4000"),
            ("fd00::1", "[fd00::1]:50000"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ] {
            assert_eq!(Address::parse(text).to_string(), shown);
        }
    }
}
