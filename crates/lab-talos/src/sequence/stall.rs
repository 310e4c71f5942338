//! First boots that stall: a race of two readers of the nocloud drive, which real machines lose now and then.

use talmox_clock::Chance;

use super::super::version::Version;
use super::life::Me;

/// Boots that stalled on real machines, and how many there were: 1.12.0 in 3 of 14, 1.13.6 in 3 of 12. Of releases before 1.12
/// none was seen to.
fn observed(version: &Version) -> Option<(u64, u64)> {
    match version.minor {
        ..=11 => None,
        12 => Some((3, 14)),
        13.. => Some((3, 12)),
    }
}

/// Whether a boot stalls that may.
fn is_lost(version: &Version, mut chance: Chance) -> bool {
    observed(version).is_some_and(|(stalled, boots)| chance.below(boots) < stalled)
}

impl Me {
    /// Whether this boot stalls by chance. Every boot draws, so that what the nth one draws does not depend on those before.
    pub(super) fn loses_race(&self, reads_drive: bool) -> bool {
        if !self.simulation.environment.has_races() {
            return false;
        }
        let chance = self.simulation.chance(&format!("stall/{}", self.vmid));
        let is_lost = self.look(|node| is_lost(&node.version, chance)).unwrap_or_default();
        reads_drive && is_lost
    }

    /// The address is up, the config is looked for, and no port is opened: only a reset helps.
    pub(super) fn stall(&self) {
        let line = "downloading config {\"component\": \"controller-runtime\", \"controller\": \"config.AcquireController\", \"platform\": \"nocloud\"}";
        self.change(|node| node.dmesg(self.simulation.now(), line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_stall_as_often_as_real_ones_did() {
        let stalls = |version: &str| {
            let version = Version::parse(version).unwrap();
            let boots = (0..200_u64).flat_map(|seed| (1..=50_u64).map(move |nth| (seed, nth)));
            let lost = boots
                .filter(|(seed, nth)| is_lost(&version, Chance::new(*seed).of("stall/111", *nth)));
            lost.count()
        };
        // Of 10,000 boots: four standard deviations around 2,143 and 2,500.
        assert!((1979..=2307).contains(&stalls("v1.12.0")), "{}", stalls("v1.12.0"));
        assert!((2327..=2673).contains(&stalls("v1.13.6")), "{}", stalls("v1.13.6"));
        assert_eq!(stalls("v1.11.6"), 0);
    }

    #[test]
    fn the_same_boot_of_the_same_seed_stalls_again() {
        let version = Version::parse("v1.13.6").unwrap();
        let drawn = |seed: u64| -> Vec<bool> {
            (1..=20).map(|nth| is_lost(&version, Chance::new(seed).of("stall/111", nth))).collect()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
