//! Formatting of ages as in the output of kubectl.

use std::time::Duration;

use talmox_talos_config::time::UnixTime;

/// Time since a timestamp; `<unknown>` if the timestamp is missing or invalid.
pub(super) fn since(timestamp: &str, now: Duration) -> String {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match UnixTime::parse(timestamp) {
        Some(then) => human(now - then.seconds()),
        None => "<unknown>".to_owned(),
    }
}

/// Formats a duration. The longer the duration, the lower the precision.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |first: i64, unit: &str, second: i64, small: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{small}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_like_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (3600, "60m"),
            (4 * 3600 + 60, "4h1m"),
            (30 * 3600, "30h"),
            (50 * 3600, "2d2h"),
            (20 * 86_400, "20d"),
            (800 * 86_400, "2y70d"),
        ] {
            assert_eq!(human(seconds), text);
        }
        assert_eq!(since("", Duration::ZERO), "<unknown>");
    }
}
