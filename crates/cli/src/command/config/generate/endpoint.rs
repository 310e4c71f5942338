//! Check of the Kubernetes API URL, with the rules of talosctl.

use std::net::Ipv6Addr;

use talmox_values::HttpUrl;
use talmox_values::url::parse_authority;

use crate::error::CommandError;

const PORT: u16 = 6443;

/// Returns an error with a suggestion if the endpoint is not an https URL.
pub(super) fn check(endpoint: &str) -> Result<(), CommandError> {
    let rejected = |what: &str, rest: &str| {
        let error = CommandError::usage(format!("the endpoint {what}"));
        Err(error.hint(format!("try https://{}", with_port(rest))))
    };
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        return rejected("has no scheme", endpoint);
    };
    if scheme != "https" {
        return rejected("must start with https://", rest);
    }
    if HttpUrl::parse(endpoint).is_err() {
        let message = format!("`{endpoint}` is not the URL of a Kubernetes API");
        return Err(CommandError::usage(message).hint("write it as https://10.0.0.20:6443"));
    }
    Ok(())
}

fn with_port(rest: &str) -> String {
    let host = rest.trim_end_matches('/');
    if host.parse::<Ipv6Addr>().is_ok() {
        return format!("[{host}]:{PORT}");
    }
    match parse_authority(host) {
        Ok((_, None)) => format!("{host}:{PORT}"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_are_accepted() {
        let good = ["https://10.0.0.20:6443", "https://k8s.lan", "https://[fd00::1]:6443/"];
        for good in good {
            assert!(check(good).is_ok(), "{good}");
        }
        let hint = |endpoint| check(endpoint).unwrap_err().hint.unwrap();
        assert_eq!(hint("10.0.0.20"), "try https://10.0.0.20:6443");
        assert_eq!(hint("10.0.0.20:443"), "try https://10.0.0.20:443");
        assert_eq!(hint("fd00::1"), "try https://[fd00::1]:6443");
        assert_eq!(hint("http://k8s.lan:6443"), "try https://k8s.lan:6443");
        for bad in ["https://", "https://a b", "https://h:0", "https://h:x", "https://[::1"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
