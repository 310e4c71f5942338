//! Known differences, and the set of vectors that they were found with.

use std::collections::BTreeMap;

use talmox_lab::pve::Release;

use crate::comparison::Level;
use crate::vector::Vector;

const TEXT: &str = include_str!("known-differences.txt");

/// Maximum number of known differences at the first level: only vectors that contradict others.
const MAX_AT_FIRST_LEVEL: usize = 2;

pub(crate) struct Known {
    /// Whether the vectors are the set that the file refers to.
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

    /// Lowest level at which this vector is known to differ.
    pub(crate) fn level(&self, id: &str, release: Release) -> Option<Level> {
        self.differences.get(&(id.to_owned(), release.to_string())).copied()
    }
}

/// Number of vectors and hash of their names.
pub(crate) fn name_of_set(vectors: &[Vector]) -> String {
    let mut ids: Vec<&str> = vectors.iter().map(|vector| vector.id.as_str()).collect();
    ids.sort_unstable();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in ids.join("\n").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{} {hash:016x}", ids.len())
}
