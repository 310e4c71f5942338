//! Duration of operations on the simulated machines.

use std::time::Duration;

/// Speed of the simulated hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// No operation takes time.
    Instant,
    #[default]
    Fast,
    Homelab,
    Slow,
}

/// Kind of operation with a simulated duration.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Processing of an API call.
    Call,
    /// Creation of an empty volume, a snapshot, or a linked clone.
    Allocate,
    /// Copy of an image, including the allocation of its volume.
    Copy { bytes: u64 },
    /// Copy of bytes to a volume that is already allocated.
    Transfer { bytes: u64 },
    /// Download from the network, including the allocation of the file or volume.
    Fetch { bytes: u64 },
    /// Further bytes of a download that has already started.
    Receive { bytes: u64 },
    /// Start of the QEMU process of a VM.
    Start,
    /// Shutdown of a guest.
    PowerDown,
    /// Exit of the QEMU process of a VM.
    Stop,
    /// Firmware of a machine, until the firmware has found a boot device.
    Firmware,
    /// Boot of a system, until its network is up.
    Boot,
    /// Start of a service, until it is healthy.
    Service,
    /// Change of a Talos 1.13 node from maintenance mode to mutual TLS.
    Switch,
    /// Time synchronization of a guest.
    TimeSync,
    /// Pull of a container image.
    Pull,
    /// Installation of a system onto a disk.
    Install,
    /// Live migration of a guest to another host.
    Migrate { bytes: u64 },
    /// Build of an image that the Image Factory has not cached.
    Build,
}

const MIB: u64 = 1 << 20;

impl Profile {
    /// Whether races between the programs of a machine are decided at random, as on real machines. The other profiles are for
    /// tests, which need the same result in every run.
    pub fn has_races(self) -> bool {
        matches!(self, Self::Homelab | Self::Slow)
    }

    /// Time that this work takes, without jitter.
    pub fn time(self, work: Work) -> Duration {
        // Milliseconds for one operation, then MiB per second for the disk and the network.
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
