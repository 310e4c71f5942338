//! Points in time for certificates and SOPS files, in whole seconds and UTC.
//!
//! This module formats and parses times. It never reads the clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, UTC. Displays as `2026-11-15T02:38:23Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(i64);

const DAY: i64 = 86_400;

/// Date and time of day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl UnixTime {
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    pub const fn seconds(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(seconds))
    }

    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(seconds))
    }

    /// Duration from `now` until this time; `None` if this time has passed.
    pub fn remaining(self, now: Self) -> Option<Duration> {
        let seconds = self.0.checked_sub(now.0)?;
        u64::try_from(seconds).ok().map(Duration::from_secs)
    }

    /// Parses a time in RFC 3339 form. Fractions of a second are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let full = talmox_yaml::timestamp(text).filter(|_| text.contains(['T', 't']))?;
        let (date, time) = full.split_once('T')?;
        let mut numbers = date.split('-').map(str::parse::<i64>);
        let mut next = || numbers.next()?.ok();
        let (year, month, day) = (next()?, next()?, next()?);
        let zone_at = time.find(['Z', '+', '-'])?;
        let (clock, zone) = time.split_at(zone_at);
        let clock = clock.split('.').next()?;
        let mut numbers = clock.split(':').map(str::parse::<i64>);
        let mut next = || numbers.next()?.ok();
        let (hour, minute, second) = (next()?, next()?, next()?);
        let offset = match zone.split_once(':') {
            None => 0,
            Some((hours, minutes)) => {
                let hours: i64 = hours.parse().ok()?;
                let minutes: i64 = minutes.parse().ok()?;
                let sign = if zone.starts_with('-') { -1 } else { 1 };
                hours * 3600 + sign * minutes * 60
            }
        };
        let civil = Civil { year, month, day, hour, minute, second };
        Some(Self(civil.to_unix().0 - offset))
    }

    pub(crate) fn civil(self) -> Civil {
        let (days, rest) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        // Years start in March here, so that the leap day is the last day of a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Civil {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

impl Civil {
    pub(crate) fn to_unix(self) -> UnixTime {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = (self.month + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        UnixTime(days * DAY + self.hour * 3600 + self.minute * 60 + self.second)
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self::default().plus(since),
            Err(before) => Self::default().minus(before.duration()),
        }
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = self.civil();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_794_710_303, "2026-11-15T02:38:23Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(UnixTime::from_seconds(seconds).to_string(), text);
            assert_eq!(UnixTime::parse(text), Some(UnixTime::from_seconds(seconds)));
        }
        assert_eq!(
            UnixTime::parse("2026-11-15T04:08:23.9+01:30"),
            UnixTime::parse("2026-11-15T02:38:23Z")
        );
        assert_eq!(UnixTime::parse("2026-11-15"), None);
        assert_eq!(UnixTime::parse("yesterday"), None);
    }

    proptest::proptest! {
        #[test]
        fn calendar_and_seconds_agree(seconds in -100_000_000_000_i64..200_000_000_000) {
            assert_eq!(UnixTime(seconds).civil().to_unix(), UnixTime(seconds));
        }
    }
}
