//! Summary of all vectors.

use std::collections::BTreeMap;

use talmox_lab::pve::Release;

use crate::comparison::{Difference, Level};
use crate::known::Known;

/// Result of one vector on one release.
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) operation: String,
    pub(crate) release: Release,
    /// Differences, each with the number of its step, counted from 1.
    pub(crate) differences: Vec<(usize, Difference)>,
    /// Number of texts by which clients choose their next action.
    pub(crate) classified: usize,
}

/// Required percentage of vectors without a difference, by level.
const REQUIRED_SHARES: [(Level, usize); 3] =
    [(Level::Status, 100), (Level::State, 98), (Level::Text, 80)];

#[derive(Clone, Copy, Default)]
struct Count {
    all: usize,
    holds: [usize; 3],
}

impl Outcome {
    /// Lowest level on which the vector differs; `None` if it does not differ.
    pub(crate) fn fails_at(&self) -> Option<Level> {
        self.differences.iter().map(|(_, difference)| difference.level).min()
    }

    fn count(&self, count: &mut Count) {
        count.all += 1;
        for (level, holds) in Level::ALL.into_iter().zip(&mut count.holds) {
            *holds += usize::from(self.fails_at().is_none_or(|fails| fails > level));
        }
    }

    /// Difference between the result and the list of known differences.
    pub(crate) fn deviation(&self, known: &Known) -> Option<String> {
        match (self.fails_at(), known.level(&self.id, self.release)) {
            (None, None) => None,
            (Some(found), Some(listed)) if found == listed => None,
            (None, Some(_)) => Some("holds, but is listed as a known difference".to_owned()),
            (Some(found), Some(listed)) => Some(format!(
                "does not hold at level {}, but is listed with level {}",
                found as u8, listed as u8
            )),
            (Some(found), None) => Some(format!("does not hold at level {}", found as u8)),
        }
    }
}

/// Table of the shares, by operation and release.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut counts: BTreeMap<(&str, Release), Count> = BTreeMap::new();
    for outcome in outcomes {
        outcome.count(counts.entry((&outcome.operation, outcome.release)).or_default());
    }
    let mut table = format!(
        "{:<22}{:>8}{:>9}{:>12}{:>12}{:>12}\n",
        "operation", "release", "vectors", "1 status", "2 state", "3 texts"
    );
    for ((operation, release), count) in counts {
        table.push_str(&row(operation, &release.to_string(), count));
    }
    for release in [Release::V9, Release::V8] {
        table.push_str(&row("all", &release.to_string(), total(outcomes, release)));
    }
    table
}

fn total<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>, release: Release) -> Count {
    let mut count = Count::default();
    for outcome in outcomes.into_iter().filter(|outcome| outcome.release == release) {
        outcome.count(&mut count);
    }
    count
}

fn row(operation: &str, release: &str, count: Count) -> String {
    let share = |holds: usize| match count.all {
        0 => "-".to_owned(),
        all => {
            let tenths = holds * 1000 / all;
            format!("{}.{} %", tenths / 10, tenths % 10)
        }
    };
    let [status, state, texts] = count.holds.map(share);
    let all = count.all;
    format!("{operation:<22}{release:>8}{all:>9}{status:>12}{state:>12}{texts:>12}\n")
}

/// Shares that are lower than required.
pub(crate) fn too_low(outcomes: &[Outcome], known: &Known) -> Vec<String> {
    let mut low = vec![];
    let unlisted = || outcomes.iter().filter(|it| known.level(&it.id, it.release).is_none());
    for release in [Release::V9, Release::V8] {
        for (at, (level, least)) in REQUIRED_SHARES.into_iter().enumerate() {
            // On the first level, only listed vectors may fail.
            let count = match level {
                Level::Status => total(unlisted(), release),
                Level::State | Level::Text => total(outcomes, release),
            };
            let (holds, all) = (count.holds[at], count.all);
            if holds * 100 < least * all {
                low.push(format!(
                    "{release}: level {} holds for {holds} of {all}, less than {least} %",
                    level as u8
                ));
            }
        }
    }
    let (wrong, all) = classified(unlisted());
    if wrong > 0 {
        low.push(format!("{wrong} of {all} texts that clients classify are wrong"));
    }
    low
}

/// Number of wrong texts by which clients choose their next action, and number of all such texts.
pub(crate) fn classified<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> (usize, usize) {
    let mut counts = (0, 0);
    for outcome in outcomes {
        let differences = outcome.differences.iter();
        counts.0 += differences.filter(|(_, difference)| difference.classified).count();
        counts.1 += outcome.classified;
    }
    counts
}
