//! Percent-encoding, form parameters and HTTP dates.

use serde_json::{Map, Value as Json};

/// Parameters of a request, with their JSON types.
pub(crate) type Params = Map<String, Json>;

/// Decodes percent-encoding. Invalid UTF-8 becomes replacement characters.
pub(crate) fn unescape(text: &str) -> String {
    decode(text, false)
}

fn decode(text: &str, plus_is_blank: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |at: usize| bytes.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        at += 1;
        match (byte, hex(at), hex(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 2;
            }
            (b'+', ..) if plus_is_blank => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Parses a query or form. A name that occurs several times becomes a list.
///
/// As in `pveproxy`, `;` separates parameters like `&`. A second `=` that is not encoded ends the value, so the rest is lost.
pub(super) fn form(text: &str) -> Params {
    let mut params = Params::new();
    for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let mut parts = pair.split('=');
        let name = decode(parts.next().unwrap_or_default(), true);
        let Some(value) = parts.next() else {
            params.insert(name, Json::Null);
            continue;
        };
        let value = Json::String(decode(value, true));
        match params.get_mut(&name) {
            None | Some(Json::Null) => {
                params.insert(name, value);
            }
            Some(Json::Array(values)) => values.push(value),
            Some(first) => *first = Json::Array(vec![first.take(), value]),
        }
    }
    params
}

/// Date in HTTP format: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn date(unix: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (unix / 86_400, unix % 86_400);
    // Years start in March here, so that the leap day is the last day. 719468 days are before 1970.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(from_march >= 10);
    let name = |names: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        name(&DAYS, days % 7),
        name(&MONTHS, month),
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_http_format() {
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_763_164_799), "Fri, 14 Nov 2025 23:59:59 GMT");
    }

    #[test]
    fn repeated_names_become_lists_and_unencoded_equals_sign_ends_value() {
        let params =
            form("a=1&b=x%20y+z&a=2&a=3&c&net0=virtio,bridge=vmbr0&d=&%C3%A4=%e2%82%ac;e=5");
        let expected = serde_json::json!({
            "a": ["1", "2", "3"], "b": "x y z", "c": null, "net0": "virtio,bridge",
            "d": "", "ä": "€", "e": "5",
        });
        assert_eq!(Json::Object(params), expected);
        assert_eq!(unescape("local%3Aiso%2fx+y%"), "local:iso/x+y%");
    }
}
