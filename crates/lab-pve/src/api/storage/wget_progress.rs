//! Progress output of `wget` in the log of a download task: one dot per MiB, 32 dots per line.

use std::time::Duration;

use talmox_lab_environment::Work;

use crate::task::TaskHandle;

const DOT: u64 = 1 << 20;
const DOTS: u64 = 32;
const CLUSTER: u64 = 8;

/// Simulates the transfer of `length` bytes: waits for each part and logs its progress line.
pub(super) async fn simulate_transfer(task: &TaskHandle, length: u64) -> Result<(), String> {
    let clock = task.site.clock;
    let started = clock.moment();
    // The fault of the task is applied once, for the whole transfer and not for each part.
    task.apply_fault(Work::Fetch { bytes: length }).await?;
    task.wait(Work::Fetch { bytes: length.min(DOTS * DOT) }).await?;
    let mut start = 0;
    while start < length {
        let end = length.min(start + DOTS * DOT);
        if start > 0 {
            task.wait(Work::Receive { bytes: end - start }).await?;
        }
        task.log(line(start, end, length, clock.moment().since(started)));
        start = end;
    }
    Ok(())
}

/// `Length:` line of `wget` for the length that the server reported.
pub(super) fn length(bytes: u64, kind: &str) -> String {
    let short = if bytes < 1024 { String::new() } else { format!(" ({})", short(bytes, 10)) };
    format!("Length: {bytes}{short} [{kind}]")
}

fn line(start: u64, end: u64, length: u64, taken: Duration) -> String {
    let mut text = format!("{:>6}K", start / 1024);
    for dot in 0..DOTS {
        if dot % CLUSTER == 0 {
            text.push(' ');
        }
        text.push(if start + (dot + 1) * DOT <= end { '.' } else { ' ' });
    }
    let millis = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX).max(1);
    let left = (length - end).saturating_mul(millis) / end / 1000;
    let rate = short(end.saturating_mul(1000) / millis, 100);
    let time = match length - end {
        0 => format!("={}.{}s", millis / 1000, millis % 1000 / 100),
        _ => format!(" {left}s"),
    };
    format!("{text}{:>3}% {rate:>5}{time}", u128::from(end) * 100 / u128::from(length))
}

/// Byte count with a unit suffix, as `wget` prints it. A number below `whole` has one decimal.
fn short(bytes: u64, whole: u64) -> String {
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = 0;
    while tenths >= 10_240 && unit < 4 {
        tenths /= 1024;
        unit += 1;
    }
    let letter = ["", "K", "M", "G", "T"][unit];
    if tenths < u128::from(whole) * 10 {
        format!("{}.{}{letter}", tenths / 10, tenths % 10)
    } else {
        format!("{}{letter}", tenths / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_equal_wget_output() {
        let (length, second) = (126_129_049, Duration::from_secs(1));
        assert_eq!(
            line(0, 32 * DOT, length, second),
            "     0K ........ ........ ........ ........ 26% 32.0M 2s"
        );
        assert_eq!(
            line(96 * DOT, length, length, 2 * second),
            " 98304K ........ ........ ........         100% 60.1M=2.0s"
        );
        assert_eq!(
            self::length(length, "application/octet-stream"),
            "Length: 126129049 (120M) [application/octet-stream]"
        );
        assert_eq!(self::length(6, "text/plain"), "Length: 6 [text/plain]");
    }
}
