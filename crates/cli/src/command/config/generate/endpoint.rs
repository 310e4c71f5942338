//! The URL of the Kubernetes API, held to what talosctl asks of it.

use crate::error::CommandError;

const PORT: u16 = 6443;

/// Refuses what is no https URL, and says what it should probably be.
pub(super) fn check(endpoint: &str) -> Result<(), CommandError> {
    let refused = |what: &str, rest: &str| {
        let error = CommandError::usage(format!("the endpoint {what}"));
        Err(error.hint(format!("try https://{}", with_port(rest))))
    };
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        return refused("has no scheme", endpoint);
    };
    if scheme != "https" {
        return refused("must start with https://", rest);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host_and_port(authority).is_none() {
        let message = format!("`{endpoint}` is not the URL of a Kubernetes API");
        return Err(CommandError::usage(message).hint("write it as https://10.0.0.20:6443"));
    }
    Ok(())
}

/// A host, and its port if it has one. Addresses of IPv6 stand in brackets.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let is_name = |host: &str| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !host.is_empty() && host.bytes().all(is_good)
    };
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        is_name(host).then_some((host, port))?
    };
    match port {
        Some(port) => Some((host, Some(port.parse().ok().filter(|port| *port > 0)?))),
        None => Some((host, None)),
    }
}

fn with_port(rest: &str) -> String {
    let host = rest.trim_end_matches('/');
    if host.parse::<std::net::Ipv6Addr>().is_ok() {
        return format!("[{host}]:{PORT}");
    }
    match host_and_port(host) {
        Some((_, None)) => format!("{host}:{PORT}"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_are_taken() {
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
