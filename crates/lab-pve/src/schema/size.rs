//! Disk sizes as text.

/// Number of bytes of a size such as `10G`, `1.5T` or `528K`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let shift = match unit.strip_suffix("iB").unwrap_or(unit) {
        "" if unit.is_empty() => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match number.split_once('.') {
        None if digits(number) => number.parse::<u64>().ok()?.checked_mul(1 << shift),
        Some((whole, fraction)) if digits(whole) && digits(fraction) => {
            let bytes = number.parse::<f64>().ok()? * f64::from(1_u32 << (shift / 2)).powi(2);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a fraction of a byte is cut off; the number is not negative"
            )]
            Some(bytes as u64)
        }
        _ => None,
    }
}

/// Formats a number of bytes in the largest unit in which it is a whole number.
pub(crate) fn format_size(bytes: u64) -> String {
    let mut size = bytes;
    let mut unit = "";
    for larger in ["K", "M", "G", "T"] {
        if !size.is_multiple_of(1024) {
            break;
        }
        size /= 1024;
        unit = larger;
    }
    format!("{size}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        assert_eq!(parse_size("10G"), Some(10 << 30));
        assert_eq!(parse_size("10GiB"), Some(10 << 30));
        assert_eq!(parse_size("1.5T"), Some(3 << 39));
        assert_eq!(parse_size("0.5"), Some(0));
        assert_eq!(parse_size("1234"), Some(1234));
        for text in ["", "G", "10g", "10GB", "1.", ".5", "10 G", "iB", "5iB", "-1"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(format_size(540_672), "528K");
        assert_eq!(format_size(4 << 20), "4M");
        assert_eq!(format_size(10 << 30), "10G");
        assert_eq!(format_size(3 << 40), "3T");
        assert_eq!(format_size(1 << 50), "1024T");
        assert_eq!(format_size(1025), "1025");
    }
}
