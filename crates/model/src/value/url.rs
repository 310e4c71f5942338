//! Web addresses: just the part of them that the inventory needs.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

/// An http or https address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    pub https: bool,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// Starts with `/`, or is empty.
    pub path: String,
}

impl HttpUrl {
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.https { "https://" } else { "http://" })?;
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

fn parse(text: &str) -> Result<HttpUrl, Option<String>> {
    let (https, rest) = match text.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        Some((scheme, _)) => return Err(Some(format!("`{scheme}://` is neither http nor https"))),
        None => {
            return Err(Some("the address does not start with `https://`".to_owned()));
        }
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if path.contains(['\0', ' ', '\n']) {
        return Err(None);
    }
    let (host, port) = parse_authority(authority)?;
    Ok(HttpUrl { https, host, port, path: path.to_owned() })
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`.
pub(super) fn parse_authority(text: &str) -> Result<(String, Option<u16>), Option<String>> {
    if text.contains('@') {
        return Err(Some("credentials do not belong into an address".to_owned()));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(None)?;
        host.parse::<Ipv6Addr>().map_err(|_| Some(format!("`{host}` is not an IPv6 address")))?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(None),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(Some("an IPv6 address is written in brackets".to_owned()));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(Some("the host name is missing or not one".to_owned()));
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Some(number),
            _ => return Err(Some(format!("`{port}` is not a port number"))),
        },
    };
    Ok((host.to_owned(), port))
}

impl Leaf for HttpUrl {
    const EXPECTED: &'static str = "an address such as `https://host:6443`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        parse(&scalar.text)
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^https?://" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Where a Proxmox answers. `atlas`, `atlas:8006` and `https://atlas:8006` are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxmoxUrl {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for ProxmoxUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = HttpUrl {
            https: true,
            host: self.host.clone(),
            port: Some(self.port),
            path: String::new(),
        };
        url.fmt(f)
    }
}

impl std::str::FromStr for ProxmoxUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || format!("expected {}", Self::EXPECTED);
        let rest = match text.split_once("://") {
            Some(("https", _)) => {
                let url = parse(text).map_err(|problem| problem.unwrap_or_else(expected))?;
                if !matches!(url.path.trim_end_matches('/'), "" | "/api2/json") {
                    return Err(format!("`{}` is not part of a Proxmox address", url.path));
                }
                return Ok(Self { host: url.host, port: url.port.unwrap_or(8006) });
            }
            Some(_) => return Err("Proxmox answers on https only".to_owned()),
            None => text,
        };
        let (host, port) =
            parse_authority(rest).map_err(|problem| problem.unwrap_or_else(expected))?;
        Ok(Self { host, port: port.unwrap_or(8006) })
    }
}

impl Leaf for ProxmoxUrl {
    const EXPECTED: &'static str = "the address of a Proxmox such as `https://atlas:8006`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        if scalar.is_null() {
            return Err(None);
        }
        scalar.text.parse().map_err(Some)
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^(https://)?[A-Za-z0-9._:\\[\\]-]+(/.*)?$" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_put_together() {
        for url in
            ["https://10.0.0.20:6443", "http://x", "https://[fd00::1]:6443/a?b", "https://h/"]
        {
            assert_eq!(parse(url).unwrap().to_string(), url);
        }
        for bad in [
            "",
            "10.0.0.20:6443",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x:0",
            "https://x:y",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_proxmox_may_be_named_briefly() {
        let show = |text: &str| text.parse::<ProxmoxUrl>().unwrap().to_string();
        assert_eq!(show("atlas"), "https://atlas:8006");
        assert_eq!(show("10.0.0.2:443"), "https://10.0.0.2:443");
        assert_eq!(show("https://atlas/api2/json/"), "https://atlas:8006");
        assert_eq!(show("https://[fd00::2]:8006"), "https://[fd00::2]:8006");
        for bad in ["http://atlas", "https://atlas/x", "", "a b"] {
            assert!(bad.parse::<ProxmoxUrl>().is_err(), "{bad}");
        }
    }
}
