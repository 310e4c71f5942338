//! Progress line while Proxmox and the nodes are read. Reading can take a minute if Proxmox is slow.

use std::future::Future;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_pve::Client;
use talmox_pve::client::Activity;

use crate::args::Format;
use crate::printer::Printer;
use crate::trace::{self, HeldLines};
use crate::words;
use crate::words::plural;

/// Interval between two drawings of the progress line.
const FRAME: Duration = Duration::from_millis(150);

/// Whether a command shows progress while it reads.
#[derive(Clone, Debug)]
pub(crate) enum Reading {
    /// No progress output.
    Silent,
    Shown(Printer),
}

impl Reading {
    /// Prints a progress line, unless stderr is a terminal. On a terminal, [`Reading::watch`] draws the progress line.
    pub(super) fn announce(&self, what: &str) {
        if let Self::Shown(printer) = self
            && printer.format == Format::Text
            && printer.size().is_none()
        {
            printer.say(what);
        }
    }

    /// Awaits a future. On a terminal, the progress line is drawn until the future ends.
    pub(super) async fn watch<T>(
        &self,
        client: &Client,
        mut work: impl Future<Output = T> + Unpin,
    ) -> T {
        let Self::Shown(printer) = self else { return work.await };
        if printer.format == Format::Json || printer.size().is_none() {
            return work.await;
        }
        // Trace lines are printed above the progress line. The last of them are printed after it is erased.
        let traced = trace::hold();
        // An interrupt drops this future. The progress line must be erased before the error is printed.
        let _cleared = ClearedAtEnd(printer);
        let clock = Clock::real();
        let started = clock.since_epoch();
        loop {
            let columns = printer.terminal().map_or(80, |size| size.columns.saturating_sub(1));
            let seconds = clock.since_epoch().saturating_sub(started).as_secs();
            for trace in traced.iter().flat_map(HeldLines::take) {
                printer.draw("\r\x1b[K");
                printer.say(&trace);
            }
            let line = words::shortened(&line(client.activity(), seconds), columns);
            printer.draw(&format!("\r\x1b[K{line}"));
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep(FRAME) => {}
            }
        }
    }
}

/// Guard that erases the progress line on drop.
struct ClearedAtEnd<'a>(&'a Printer);

impl Drop for ClearedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.draw("\r\x1b[K");
    }
}

/// Text of the progress line.
fn line(activity: Activity, seconds: u64) -> String {
    let Activity { hosts, vms, vms_read, waiting } = activity;
    let what = match (hosts, vms) {
        (0, _) => "reading Proxmox".to_owned(),
        _ if waiting == 0 => "waiting for the nodes and Kubernetes to answer".to_owned(),
        (hosts, 0) => format!("reading Proxmox: {}", plural(hosts, "host")),
        (hosts, vms) => {
            format!(
                "reading Proxmox: {}, {vms_read} of {}",
                plural(hosts, "host"),
                plural(vms, "VM")
            )
        }
    };
    match seconds {
        0 => what,
        seconds => format!("{what}, {seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_the_progress() {
        let none = Activity::default();
        assert_eq!(line(none, 0), "reading Proxmox");
        let host = Activity { hosts: 1, waiting: 2, ..none };
        assert_eq!(line(host, 3), "reading Proxmox: 1 host, 3s");
        let vms = Activity { hosts: 3, vms: 40, vms_read: 12, waiting: 28 };
        assert_eq!(line(vms, 36), "reading Proxmox: 3 hosts, 12 of 40 VMs, 36s");
        let nodes = Activity { waiting: 0, vms_read: 40, ..vms };
        assert_eq!(line(nodes, 40), "waiting for the nodes and Kubernetes to answer, 40s");
    }
}
