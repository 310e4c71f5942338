//! Timestamps of go-yaml.
//!
//! [`Resolved`](crate::Resolved) has no timestamp type, because no supported document contains a timestamp. Timestamps
//! matter in two cases: a text that looks like a timestamp is quoted, and an untyped value that looks like a timestamp
//! is written in the full form.

/// Full form (`2020-01-01T00:00:00Z`) of a text that go-yaml reads as a timestamp; `None` for another text.
pub fn timestamp(text: &str) -> Option<String> {
    let (year, rest) = text.split_once('-')?;
    if year.len() != 4 || !is_digits(year) {
        return None;
    }
    let (month, rest) = number(rest, 12)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 31)?;
    let year_number: u32 = year.parse().ok()?;
    if month == 0 || day == 0 || day > days_in(month, year_number) {
        return None;
    }
    let date = format!("{year}-{month:02}-{day:02}");
    if rest.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let separator = rest.chars().next()?;
    let zoned = match separator {
        'T' | 't' => true,
        ' ' => false,
        _ => return None,
    };
    let (hour, rest) = number(&rest[1..], 23)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 59)?;
    let (second, rest) = number(rest.strip_prefix(':')?, 59)?;
    let (fraction, rest) = fraction(rest)?;
    let zone = match (zoned, rest) {
        (false, "") | (true, "Z") => "Z".to_owned(),
        (true, offset) => zone(offset)?,
        (false, _) => return None,
    };
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a number of one or two digits. Returns the number and the text after it.
fn number(text: &str, max: u32) -> Option<(u32, &str)> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let value = text[..length].parse().ok().filter(|value| *value <= max)?;
    Some((value, &text[length..]))
}

/// Parses a fraction of a second. The result has no trailing zeros and at most nine digits.
fn fraction(text: &str) -> Option<(String, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']) else {
        return Some((String::new(), text));
    };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return None;
    }
    let digits = rest[..length.min(9)].trim_end_matches('0');
    let fraction = if digits.is_empty() { String::new() } else { format!(".{digits}") };
    Some((fraction, &rest[length..]))
}

fn zone(text: &str) -> Option<String> {
    let sign = text.chars().next().filter(|c| matches!(c, '+' | '-'))?;
    let (hours, minutes) = text[1..].split_once(':')?;
    let valid = hours.len() == 2
        && minutes.len() == 2
        && is_digits(hours)
        && is_digits(minutes)
        && hours <= "24"
        && minutes < "60";
    if !valid {
        return None;
    }
    Some(if hours == "00" && minutes == "00" {
        "Z".to_owned()
    } else {
        format!("{sign}{hours}:{minutes}")
    })
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn timestamps_are_recognized_like_in_go_yaml() {
        let full = |text| timestamp(text).unwrap_or_default();
        assert_eq!(full("2020-01-01"), "2020-01-01T00:00:00Z");
        assert_eq!(full("2020-1-2t3:4:5.120Z"), "2020-01-02T03:04:05.12Z");
        assert_eq!(full("2020-01-02 03:04:05"), "2020-01-02T03:04:05Z");
        assert_eq!(full("2020-01-02T03:04:05+02:00"), "2020-01-02T03:04:05+02:00");
        for text in [
            "2020-02-30",
            "2020-13-01",
            "20-01-01",
            "2020-01-01T",
            "2020-01-01 10:00",
            "2020-01-01 é",
            "10.5.0.2",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }
}
