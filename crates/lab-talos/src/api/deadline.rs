//! Deadline that a gRPC client sends with a call.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Timeout from the `grpc-timeout` header; `None` if the client set no deadline.
pub(super) fn of(metadata: &MetadataMap) -> Option<Duration> {
    parse(metadata.get("grpc-timeout")?.to_str().ok()?)
}

/// Parses a gRPC timeout: at most eight digits followed by a unit.
fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_parsed_with_their_units() {
        for (text, time) in [
            ("2H", Some(Duration::from_hours(2))),
            ("3M", Some(Duration::from_mins(3))),
            ("5S", Some(Duration::from_secs(5))),
            ("1500m", Some(Duration::from_millis(1500))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("7n", Some(Duration::from_nanos(7))),
            ("123456789S", None),
            ("+5S", None),
            ("5", None),
            ("S", None),
            ("", None),
            ("5\u{e9}", None),
        ] {
            assert_eq!(parse(text), time, "{text}");
        }
    }
}
