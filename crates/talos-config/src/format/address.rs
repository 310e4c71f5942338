//! Network addresses in the notation of Go's netip. For each type, an empty text is the zero value.

use std::net::{IpAddr, Ipv6Addr};

use super::parse_port;

/// Parses an address, and the zone of an IPv6 address.
pub(crate) fn parse_addr(source: &str) -> Option<(IpAddr, &str)> {
    match source.split_once('%') {
        None => Some((source.parse().ok()?, "")),
        Some((addr, zone)) if !zone.is_empty() => {
            Some((IpAddr::V6(addr.parse::<Ipv6Addr>().ok()?), zone))
        }
        Some(_) => None,
    }
}

/// Parses an address with its prefix length. The host bits of the address are kept.
pub(crate) fn parse_prefix(source: &str) -> Option<(IpAddr, u8)> {
    let (addr, bits) = source.rsplit_once('/')?;
    let addr: IpAddr = addr.parse().ok()?;
    let max = if addr.is_ipv4() { 32 } else { 128 };
    let has_zero = bits.len() > 1 && bits.starts_with('0');
    let bits = parse_port(bits).filter(|bits| *bits <= max && !has_zero)?;
    Some((addr, u8::try_from(bits).ok()?))
}

pub(crate) fn parse_addr_port(source: &str) -> Option<(IpAddr, &str, u16)> {
    let (addr, port) = source.rsplit_once(':')?;
    let port = parse_port(port)?;
    match addr.strip_prefix('[') {
        Some(bracketed) => {
            let (addr, zone) = parse_addr(bracketed.strip_suffix(']')?)?;
            addr.is_ipv6().then_some((addr, zone, port))
        }
        None => Some((IpAddr::V4(addr.parse().ok()?), "", port)),
    }
}

pub(crate) fn canonical_addr(source: &str) -> Result<String, String> {
    if source.is_empty() {
        return Ok(String::new());
    }
    match parse_addr(source) {
        Some((addr, "")) => Ok(addr.to_string()),
        Some((addr, zone)) => Ok(format!("{addr}%{zone}")),
        None => Err(format!("ParseAddr({source:?}): unable to parse IP")),
    }
}

pub(crate) fn canonical_prefix(source: &str) -> Result<String, String> {
    if source.is_empty() {
        return Ok(String::new());
    }
    match parse_prefix(source) {
        Some((addr, bits)) => Ok(format!("{addr}/{bits}")),
        None if !source.contains('/') => Err(format!("netip.ParsePrefix({source:?}): no '/'")),
        None => Err(format!("netip.ParsePrefix({source:?}): bad prefix")),
    }
}

pub(crate) fn canonical_addr_port(source: &str) -> Result<String, String> {
    if source.is_empty() {
        return Ok(String::new());
    }
    match parse_addr_port(source) {
        Some((IpAddr::V4(addr), _, port)) => Ok(format!("{addr}:{port}")),
        Some((IpAddr::V6(addr), "", port)) => Ok(format!("[{addr}]:{port}")),
        Some((IpAddr::V6(addr), zone, port)) => Ok(format!("[{addr}%{zone}]:{port}")),
        None => Err(format!("not an ip:port: {source:?}")),
    }
}

pub(crate) fn canonical_mac(source: &str) -> Result<String, String> {
    let digits: String = source.chars().filter(|c| *c != ':').collect();
    if let Some(wrong) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(format!("encoding/hex: invalid byte: {wrong:?}"));
    }
    if digits.len() % 2 == 1 {
        return Err("encoding/hex: odd length hex string".to_owned());
    }
    let digits = digits.to_ascii_lowercase();
    let pairs: Vec<&str> =
        (0..digits.len() / 2).map(|pair| &digits[2 * pair..2 * pair + 2]).collect();
    Ok(pairs.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_go_does() {
        assert_eq!(canonical_addr("2001:DB8::0:1").as_deref(), Ok("2001:db8::1"));
        assert_eq!(canonical_addr("fe80::1%eth0").as_deref(), Ok("fe80::1%eth0"));
        assert_eq!(canonical_prefix("10.0.0.5/24").as_deref(), Ok("10.0.0.5/24"));
        assert_eq!(canonical_addr_port("[::1]:080").as_deref(), Ok("[::1]:80"));
        assert_eq!(canonical_addr_port("[fe80::1%eth0]:80").as_deref(), Ok("[fe80::1%eth0]:80"));
        assert_eq!(canonical_mac("AA:BBcc").as_deref(), Ok("aa:bb:cc"));
        for wrong in ["10.0.0", "010.0.0.1", "1.2.3.4%eth0", "::1%", "x"] {
            assert!(canonical_addr(wrong).is_err(), "{wrong}");
        }
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "::/129", "::1%a/64"] {
            assert!(canonical_prefix(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1.2.3.4", "::1:80", "[1.2.3.4]:80", "1.2.3.4:99999"] {
            assert!(canonical_addr_port(wrong).is_err(), "{wrong}");
        }
    }
}
