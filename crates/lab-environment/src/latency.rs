//! How long things take on the simulated machines.

use std::time::Duration;

/// How slow the simulated hardware is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// Nothing takes any time.
    Instant,
    #[default]
    Fast,
    Homelab,
    Slow,
}

/// Something that takes time.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Answering a call.
    Call,
    /// Making an empty volume, a snapshot, or a linked clone of one.
    Allocate,
    /// Reading and writing bytes of an image.
    Copy { bytes: u64 },
    /// Going on with a copy that has begun.
    Transfer { bytes: u64 },
    /// Getting bytes from elsewhere on the network.
    Fetch { bytes: u64 },
    /// Going on with getting them.
    Receive { bytes: u64 },
    /// QEMU, from its start until it runs.
    Start,
    /// A guest that is told to power down.
    PowerDown,
    /// QEMU, until it is gone.
    Stop,
    /// A machine, until its firmware has found what to boot.
    Firmware,
    /// A system, from its first instruction until its network is up.
    Boot,
    /// A service of a guest, until it is well.
    Service,
    /// A node of Talos 1.13 that changes from maintenance to mutual TLS.
    Switch,
    /// A guest that asks for the time.
    TimeSync,
    /// A guest that gets the image of a container.
    Pull,
    /// A guest that writes a system onto its disk.
    Install,
    /// Moving a running guest to another host.
    Migrate { bytes: u64 },
    /// Making an image that nobody has asked for before.
    Build,
}

const MIB: u64 = 1 << 20;

impl Profile {
    /// Whether races between a machine's programs come out one way or the other, as on real machines. The faster profiles are
    /// for tests, where every run takes the same way.
    pub fn has_races(self) -> bool {
        matches!(self, Self::Homelab | Self::Slow)
    }

    /// How long this takes, without chance.
    pub fn time(self, work: Work) -> Duration {
        // Milliseconds for one piece of work, and MiB per second for bytes.
        let (call, allocate, start, power_down, stop, build, disk, network) = match self {
            Self::Instant => return Duration::ZERO,
            Self::Fast => (0, 50, 400, 1_500, 200, 500, 2_000, 500),
            Self::Homelab => (8, 600, 2_500, 8_000, 1_200, 20_000, 250, 40),
            Self::Slow => (60, 4_000, 9_000, 30_000, 5_000, 60_000, 40, 6),
        };
        let (firmware, boot, service, switch, time_sync, pull, install) = match self {
            Self::Instant => return Duration::ZERO,
            Self::Fast => (200, 800, 150, 150, 300, 400, 600),
            Self::Homelab => (2_000, 10_000, 1_200, 1_500, 20_000, 6_000, 15_000),
            Self::Slow => (5_000, 40_000, 5_000, 1_500, 20_000, 60_000, 90_000),
        };
        let moved = |bytes: u64, rate: u64| bytes.div_ceil(MIB) * 1000 / rate;
        Duration::from_millis(match work {
            Work::Call => call,
            Work::Allocate => allocate,
            Work::Copy { bytes } => allocate + moved(bytes, disk),
            Work::Transfer { bytes } => moved(bytes, disk),
            Work::Fetch { bytes } => allocate + moved(bytes, network),
            Work::Receive { bytes } => moved(bytes, network),
            Work::Start => start,
            Work::PowerDown => power_down,
            Work::Stop => stop,
            Work::Firmware => firmware,
            Work::Boot => boot,
            Work::Service => service,
            Work::Switch => switch,
            Work::TimeSync => time_sync,
            Work::Pull => pull,
            Work::Install => install,
            Work::Migrate { bytes } => start + moved(bytes, network),
            Work::Build => build,
        })
    }
}
