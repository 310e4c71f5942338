//! Times in task logs.

/// Date and time in UTC: `2026-05-17 09:30:00`.
pub(crate) fn date_time(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    // Days are counted from 1 March of year 0, so that leap days come last.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {}", duration(seconds))
}

/// Duration as `01:02:03`.
pub(crate) fn duration(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00");
        assert_eq!(date_time(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date_time(1_700_000_000), "2023-11-14 22:13:20");
        assert_eq!(date_time(1_735_689_599), "2024-12-31 23:59:59");
    }
}
