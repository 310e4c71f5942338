//! Known differences, and the set of vectors in which they were found.

use std::collections::BTreeMap;

use talmox_lab::pve::Release;

use crate::comparison::Level;
use crate::vector::Vector;

const TEXT: &str = include_str!("known-differences.txt");

/// Maximum number of known differences on the first level. Only vectors that contradict other vectors may differ there.
const MAX_AT_FIRST_LEVEL: usize = 2;

pub(crate) struct Known {
    /// Whether the current vectors are the set that the list of known differences refers to.
    pub(crate) same_set: bool,
    differences: BTreeMap<(String, String), Level>,
}

impl Known {
    pub(crate) fn of(vectors: &[Vector]) -> Result<Self, String> {
        let mut known = Self { same_set: false, differences: BTreeMap::new() };
        for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("known-differences.txt: {line:?}");
            if let Some(set) = line.strip_prefix("set ") {
                known.same_set = set == name_of_set(vectors);
                continue;
            }
            let mut words = line.splitn(4, ' ');
            let (id, release) = (words.next(), words.next());
            let level = words.next().and_then(|level| level.parse::<usize>().ok());
            let level = level.and_then(|level| Level::ALL.get(level.checked_sub(1)?));
            match (id, release, level, words.next()) {
                (Some(id), Some(release @ ("9.2" | "8.4")), Some(level), Some(_)) => {
                    known.differences.insert((id.to_owned(), release.to_owned()), *level);
                }
                _ => return Err(wrong()),
            }
        }
        let first = known.differences.values().filter(|level| **level == Level::Status).count();
        if first > MAX_AT_FIRST_LEVEL {
            return Err(format!("known-differences.txt lists {first} at the first level"));
        }
        Ok(known)
    }

    /// Lowest level on which this vector is known to differ; `None` if no difference is known.
    pub(crate) fn level(&self, id: &str, release: Release) -> Option<Level> {
        self.differences.get(&(id.to_owned(), release.to_string())).copied()
    }
}

/// Name of a set of vectors: their number, and a hash of their ids.
pub(crate) fn name_of_set(vectors: &[Vector]) -> String {
    let mut ids: Vec<&str> = vectors.iter().map(|vector| vector.id.as_str()).collect();
    ids.sort_unstable();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in ids.join("\n").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{} {hash:016x}", ids.len())
}
