//! Durations in Go's notation.

const NANOSECOND: i128 = 1;
const MICROSECOND: i128 = 1_000;
const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// Parses a duration such as `1h30m`, `-1.5s` or `0` to nanoseconds.
pub(crate) fn parse(source: &str) -> Option<i64> {
    let unsigned = source.strip_prefix(['-', '+']).unwrap_or(source);
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit = unit(&after[..end])?;
        if whole.len() > 19 {
            return None;
        }
        total += whole.parse::<i128>().unwrap_or(0) * unit;
        total += fraction_of(fraction, unit);
        rest = &after[end..];
    }
    let total = if source.starts_with('-') { -total } else { total };
    i64::try_from(total).ok()
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn fraction_of(digits: &str, unit: i128) -> i128 {
    let digits = &digits[..digits.len().min(18)];
    let length = u32::try_from(digits.len()).unwrap_or(0);
    digits.parse::<i128>().unwrap_or(0) * unit / 10i128.pow(length)
}

fn unit(name: &str) -> Option<i128> {
    Some(match name {
        "ns" => NANOSECOND,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// Duration in the form that Go writes, such as `1h30m0s`, `1.5s`, `100ms` or `0s`.
pub(crate) fn write(nanoseconds: i64) -> String {
    let total = i128::from(nanoseconds).abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let text = match total {
        0 => "0s".to_owned(),
        _ if total < MICROSECOND => format!("{total}ns"),
        _ if total < MILLISECOND => decimal(total, MICROSECOND, "\u{b5}s"),
        _ if total < SECOND => decimal(total, MILLISECOND, "ms"),
        _ => {
            let seconds = decimal(total % MINUTE, SECOND, "s");
            match (total / HOUR, total % HOUR / MINUTE) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

fn decimal(value: i128, unit: i128, name: &str) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        for (source, written) in [
            ("0", "0s"),
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("2h45m30.5s", "2h45m30.5s"),
            ("100ms", "100ms"),
            ("1500us", "1.5ms"),
            ("-5m", "-5m0s"),
            ("8760h", "8760h0m0s"),
        ] {
            assert_eq!(parse(source).map(write).as_deref(), Some(written), "{source}");
        }
        for wrong in ["", "5", "h", "1d", "1 h", "--1s", "99999999999h", "."] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
