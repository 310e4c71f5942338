//! First boots that stall. On real machines, two readers of the nocloud drive sometimes race with each other, and the boot then
//! stalls.

use talmox_clock::Chance;

use super::super::version::Version;
use super::node_boot::NodeBoot;

/// Number of stalled boots, and number of all boots, observed on real machines: 3 of 14 on 1.12.0, and 3 of 12 on 1.13.6. On
/// releases before 1.12, no boot stalled.
fn observed(version: &Version) -> Option<(u64, u64)> {
    match version.minor {
        ..=11 => None,
        12 => Some((3, 14)),
        13.. => Some((3, 12)),
    }
}

/// Whether a boot stalls, given that it is a boot that can stall.
fn boot_stalls(version: &Version, mut chance: Chance) -> bool {
    observed(version).is_some_and(|(stalled, boots)| chance.below(boots) < stalled)
}

impl NodeBoot {
    /// Whether this boot stalls at random. A number is drawn even for a boot that cannot stall, so that the draws of later
    /// boots do not depend on it.
    pub(super) fn stalls_by_chance(&self, reads_drive: bool) -> bool {
        if !self.simulation.environment.has_races() {
            return false;
        }
        let chance = self.simulation.chance(&format!("stall/{}", self.vmid));
        let stalls = self.look(|node| boot_stalls(&node.version, chance)).unwrap_or_default();
        reads_drive && stalls
    }

    /// Stalls the boot. The network is up and the log shows a download of the config, but no port is opened. Only a reset ends
    /// the stall.
    pub(super) fn stall(&self) {
        let line = "downloading config {\"component\": \"controller-runtime\", \"controller\": \"config.AcquireController\", \"platform\": \"nocloud\"}";
        self.change(|node| node.dmesg(self.simulation.now(), line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_stall_with_the_observed_frequency() {
        let stalls = |version: &str| {
            let version = Version::parse(version).unwrap();
            let boots = (0..200_u64).flat_map(|seed| (1..=50_u64).map(move |nth| (seed, nth)));
            let lost = boots.filter(|(seed, nth)| {
                boot_stalls(&version, Chance::new(*seed).of("stall/111", *nth))
            });
            lost.count()
        };
        // The ranges are four standard deviations around the expected 2,143 and 2,500 stalls of 10,000 boots.
        assert!((1979..=2307).contains(&stalls("v1.12.0")), "{}", stalls("v1.12.0"));
        assert!((2327..=2673).contains(&stalls("v1.13.6")), "{}", stalls("v1.13.6"));
        assert_eq!(stalls("v1.11.6"), 0);
    }

    #[test]
    fn stalls_are_reproducible_by_seed() {
        let version = Version::parse("v1.13.6").unwrap();
        let drawn = |seed: u64| -> Vec<bool> {
            (1..=20)
                .map(|nth| boot_stalls(&version, Chance::new(seed).of("stall/111", nth)))
                .collect()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
