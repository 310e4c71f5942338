//! Sizes: bytes with units, percentages, and conditions on them.

use talmox_yaml::Node;

use super::text;

const DECIMAL_UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/// Parses a size such as `10`, `1.5 GiB`, `100MB` or `1,000k` to bytes.
pub(crate) fn parse_bytes(source: &str) -> Result<u64, String> {
    let end = source
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')))
        .unwrap_or(source.len());
    let (number, unit) = source.split_at(end);
    let number = number.replace(',', "");
    let invalid = || format!("strconv.ParseFloat: parsing {number:?}: invalid syntax");
    if !number.contains(|c: char| c.is_ascii_digit()) {
        return Err(invalid());
    }
    let number: f64 = number.parse().map_err(|_| invalid())?;
    let unit = unit.trim().to_lowercase();
    let factor = unit_factor(&unit).ok_or_else(|| format!("unhandled size name: {unit}"))?;
    let bytes = number * factor;
    if bytes >= 2f64.powi(64) {
        return Err(format!("too large: {source}"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and checked against the maximum"
    )]
    Ok(bytes as u64)
}

fn unit_factor(unit: &str) -> Option<f64> {
    let prefix = unit.strip_suffix('b').unwrap_or(unit);
    let (prefix, base) = match prefix.strip_suffix('i') {
        Some(binary) if !binary.is_empty() => (binary, 1024f64),
        Some(_) => return None,
        None => (prefix, 1000f64),
    };
    let power = match prefix {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "e" => 6,
        _ => return None,
    };
    Some(base.powi(power))
}

/// Size of a partition, in decimal units if they represent it exactly, otherwise in bytes.
pub(crate) fn write_disk_size(bytes: u64) -> Node {
    if bytes.is_multiple_of(1000) {
        let words = in_decimal_units(bytes);
        if parse_bytes(&words) == Ok(bytes) {
            return text(words);
        }
    }
    Node::plain(bytes.to_string())
}

fn in_decimal_units(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "rounded to a tenth anyway")]
    let mut exact = bytes as f64;
    let mut units = DECIMAL_UNITS.iter();
    let mut unit = units.next().unwrap_or(&"B");
    while exact >= 1000.0
        && let Some(next) = units.next()
    {
        unit = next;
        exact /= 1000.0;
    }
    let value = (exact * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Checks a size in bytes. A `signed` size counts from the end of a disk and exists since Talos 1.13.
pub(crate) fn check_byte_size(source: &str, signed: bool) -> Result<(), String> {
    if source.is_empty() {
        return Ok(());
    }
    parse_bytes(without_sign(source, signed)).map(drop)
}

fn without_sign(source: &str, signed: bool) -> &str {
    source.strip_prefix('-').filter(|_| signed).unwrap_or(source)
}

pub(crate) fn check_size(source: &str, signed: bool) -> Result<(), String> {
    if !source.contains('%') {
        return check_byte_size(source, signed);
    }
    let Some(number) = source.strip_suffix('%') else {
        return Err("percentage must end with '%'".to_owned());
    };
    let number = without_sign(number, signed);
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(()),
        Ok(percent) => Err(format!("percentage must be between 0 and 100, got {percent}")),
        Err(_) => Err(format!(
            "invalid percentage value: strconv.ParseFloat: parsing {number:?}: invalid syntax"
        )),
    }
}

/// Checks the size condition of a disk selector, such as `>= 10GB`.
pub(crate) fn check_condition(source: &str) -> Result<(), String> {
    let condition = source.trim();
    let size = [">=", "<=", ">", "<", "=="]
        .iter()
        .find_map(|operator| condition.strip_prefix(operator))
        .unwrap_or(condition);
    parse_bytes(size.trim())
        .map(drop)
        .map_err(|error| format!("failed to parse disk size {size}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_parsed_with_any_unit() {
        assert_eq!(parse_bytes("10"), Ok(10));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(1_610_612_736));
        assert_eq!(parse_bytes("100MB"), Ok(100_000_000));
        assert_eq!(parse_bytes("1,000k"), Ok(1_000_000));
        assert_eq!(parse_bytes("4Gi"), Ok(4_294_967_296));
        for wrong in ["", "GB", "10 foo", "99999999EB", "10ib"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn disk_sizes_keep_their_value() {
        let written = |bytes| write_disk_size(bytes).as_str().unwrap().to_owned();
        assert_eq!(written(100_000_000), "100 MB");
        assert_eq!(written(1_500_000), "1.5 MB");
        assert_eq!(written(1_234_000), "1234000");
        assert_eq!(written(1_073_741_824), "1073741824");
        assert_eq!(written(0), "0 B");
    }
}
