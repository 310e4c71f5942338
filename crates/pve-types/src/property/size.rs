pub const GIB: u64 = 1 << 30;

/// Size in bytes, parsed from the notation of Proxmox: `40G`, `528K`, `1.5T`, `4MiB`, `1024`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix("iB").unwrap_or(text);
    let (number, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let unit = 1_u64 << shift;
    let parts = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let rest = u64::try_from(u128::from(fraction) * u128::from(unit) / u128::from(parts)).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units_are_parsed() {
        assert_eq!(parse_size("40G"), Some(40 * GIB));
        assert_eq!(parse_size("528K"), Some(528 * 1024));
        assert_eq!(parse_size("1.5T"), Some(1536 * GIB));
        assert_eq!(parse_size("4MiB"), Some(4 << 20));
        assert_eq!(parse_size("1024"), Some(1024));
        for odd in ["", "G", "1,5G", "-1G", "99999999999T", "1.0000000001G", "4X"] {
            assert_eq!(parse_size(odd), None, "{odd}");
        }
    }
}
