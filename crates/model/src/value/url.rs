//! URLs in the inventory.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};
use talmox_values::url::parse_authority;
use talmox_values::{HttpUrl, UrlError};
use talmox_yaml::Scalar;

use crate::language::Leaf;

impl Leaf for HttpUrl {
    const EXPECTED: &'static str = "an address such as `https://host:6443`";

    fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
        Self::parse(&scalar.text).map_err(|problem| match problem {
            UrlError::Malformed => None,
            problem => Some(problem.to_string()),
        })
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^https?://" })
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Address of the API of a Proxmox host. `atlas`, `atlas:8006` and `https://atlas:8006` are the same address.
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

impl FromStr for ProxmoxUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = |problem: UrlError| match problem {
            UrlError::Malformed => format!("expected {}", Self::EXPECTED),
            problem => problem.to_string(),
        };
        let rest = match text.split_once("://") {
            Some(("https", _)) => {
                let url = HttpUrl::parse(text).map_err(problem)?;
                if !matches!(url.path.trim_end_matches('/'), "" | "/api2/json") {
                    return Err(format!("`{}` is not part of a Proxmox address", url.path));
                }
                return Ok(Self { host: url.host, port: url.port.unwrap_or(8006) });
            }
            Some(_) => return Err("Proxmox answers on https only".to_owned()),
            None => text,
        };
        let (host, port) = parse_authority(rest).map_err(problem)?;
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
    fn a_text_that_is_not_a_url_at_all_gets_the_general_message() {
        let parse = |text: &str| {
            <HttpUrl as Leaf>::parse(&Scalar { text: text.to_owned(), ..Scalar::default() })
        };
        assert_eq!(parse("https://h/a").unwrap().to_string(), "https://h/a");
        assert_eq!(parse("https://h/a b"), Err(None));
        let problem = "credentials do not belong into an address";
        assert_eq!(parse("https://u:p@x"), Err(Some(problem.to_owned())));
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
