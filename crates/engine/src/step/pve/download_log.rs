//! Progress of a download, from the log of its task. Proxmox downloads with `wget`, which writes a line for every 32 MiB. A
//! line contains its offset, a dot for each MiB, and the percentage at its end.

/// State of a log that talmox reads line by line.
#[derive(Debug)]
pub(super) struct DownloadLog {
    total: Option<u64>,
    bytes: u64,
}

/// Downloaded and total bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) total: u64,
}

impl DownloadLog {
    /// `total` is the length of the file. If it is None, the length is read from the log.
    pub(super) fn new(total: Option<u64>) -> Self {
        Self { total, bytes: 0 }
    }

    /// Reads a line. Returns the progress if the line shows more progress than the lines before.
    pub(super) fn read(&mut self, line: &str) -> Option<Progress> {
        if self.total.is_none() {
            self.total = length(line);
        }
        let total = self.total?;
        let bytes = u128::from(total) * u128::from(percent(line)?) / 100;
        let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > self.bytes)?;
        self.bytes = bytes;
        Some(Progress { bytes, total })
    }
}

/// The percentage in a line such as ` 32768K ........ ........ ........ ........ 53% 67.6M 1s`.
fn percent(line: &str) -> Option<u8> {
    let (start, rest) = line.trim_start().split_once('K')?;
    start.parse::<u64>().ok()?;
    let (dots, _) = rest.split_once('%')?;
    let percent = dots.trim_start_matches(['.', ',', ' ']).parse().ok()?;
    (percent <= 100).then_some(percent)
}

/// The length of the file in a line such as `Length: 126129049 (120M) [application/octet-stream]`.
fn length(line: &str) -> Option<u64> {
    line.strip_prefix("Length: ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 8] = [
        "downloading https://factory.example/100%.qcow2 to /var/lib/vz/import/x.qcow2",
        "Length: 104857600 (100M) [application/octet-stream]",
        "Saving to: '/var/lib/vz/import/x.qcow2.tmp_dwnl.3123'",
        "     0K ........ ........ ........ ........ 32% 43.9M 2s",
        "     0K ........ ........ ........ ........ 32% 43.9M 2s",
        " 32768K ........ ........ ........ ..",
        " 98304K ....                               100% 63.9M=2.1s",
        "2024-03-22 18:17:18 (58.6 MB/s) - 'x.tmp_dwnl.3123' saved [104857600/104857600]",
    ];

    fn read(log: &mut DownloadLog, lines: &[&str]) -> Vec<(u64, u64)> {
        let progress = lines.iter().filter_map(|line| log.read(line));
        progress.map(|Progress { bytes, total }| (bytes >> 20, total >> 20)).collect()
    }

    #[test]
    fn bytes_are_reported_up_to_the_end_of_the_log() {
        assert_eq!(read(&mut DownloadLog::new(None), &LINES), [(32, 100), (100, 100)]);
        let known = &mut DownloadLog::new(Some(200 << 20));
        assert_eq!(read(known, &LINES), [(64, 200), (200, 200)]);
    }

    #[test]
    fn a_log_in_another_format_is_ignored() {
        let log = &mut DownloadLog::new(Some(1 << 30));
        let lines =
            ["", "no content", "50%", "OK 50%", "9K", "9K x 5%", "9K .. 101%", "9K .. 300%"];
        assert_eq!(read(log, &lines), []);
        assert_eq!(read(&mut DownloadLog::new(None), &["     0K .... 32% 43.9M 2s"]), []);
    }
}
