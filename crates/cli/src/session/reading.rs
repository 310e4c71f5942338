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

/// Progress output of a command while it prepares and reads.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    printer: Printer,
    /// Whether lines are also printed if stderr is not a terminal.
    is_logged: bool,
}

impl Reading {
    /// Progress output on a terminal only.
    pub(super) fn on_terminal(printer: &Printer) -> Self {
        Self { printer: printer.clone(), is_logged: false }
    }

    /// Progress output on a terminal, and as lines if stderr is a file or a pipe.
    pub(super) fn logged(printer: &Printer) -> Self {
        Self { printer: printer.clone(), is_logged: true }
    }

    /// Whether progress lines are drawn. Output for programs (`--format json`) and with `--quiet` has none.
    fn is_drawn(&self) -> bool {
        let printer = &self.printer;
        printer.format == Format::Text && !printer.is_quiet && printer.size().is_some()
    }

    /// Prints a line, unless stderr is a terminal.
    pub(super) fn log(&self, what: &str) {
        if self.is_logged && self.printer.format == Format::Text && self.printer.size().is_none() {
            self.printer.say(what);
        }
    }

    /// Shows work that blocks the thread. On a terminal, the line is erased when the guard is dropped, so drop the guard
    /// before anything else is printed.
    #[must_use]
    pub(super) fn announce(&self, what: &str) -> Option<AnnouncedLine<'_>> {
        self.log(what);
        if !self.is_drawn() {
            return None;
        }
        let line = AnnouncedLine { _cleared: ClearedAtEnd(&self.printer), _traced: trace::hold() };
        self.printer.draw(&format!("\r\x1b[K{}", words::shortened(what, self.columns())));
        Some(line)
    }

    /// Columns of the progress line. The last column stays empty, because some terminals wrap after it.
    fn columns(&self) -> usize {
        self.printer.terminal().map_or(80, |size| size.columns.saturating_sub(1))
    }

    /// Awaits a future. On a terminal, the progress line is drawn until the future ends.
    pub(super) async fn watch<T>(
        &self,
        client: &Client,
        mut work: impl Future<Output = T> + Unpin,
    ) -> T {
        if !self.is_drawn() {
            return work.await;
        }
        let printer = &self.printer;
        // Trace lines are printed above the progress line. The last of them are printed after it is erased.
        let traced = trace::hold();
        // An interrupt drops this future. The progress line must be erased before the error is printed.
        let _cleared = ClearedAtEnd(printer);
        let clock = Clock::real();
        let started = clock.since_epoch();
        loop {
            let seconds = clock.since_epoch().saturating_sub(started).as_secs();
            for trace in traced.iter().flat_map(HeldLines::take) {
                printer.draw("\r\x1b[K");
                printer.say(&trace);
            }
            let line = words::shortened(&line(client.activity(), seconds), self.columns());
            printer.draw(&format!("\r\x1b[K{line}"));
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep(FRAME) => {}
            }
        }
    }
}

/// Line of [`Reading::announce`] on a terminal. Trace lines are held back, and printed after the line is erased.
pub(super) struct AnnouncedLine<'a> {
    // Fields are dropped in this order.
    _cleared: ClearedAtEnd<'a>,
    _traced: Option<HeldLines>,
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
