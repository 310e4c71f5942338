//! Repeatable random numbers: the seed and the number of a case determine the case.

/// SplitMix64. It needs eight lines and no dependency, and is good enough to choose test cases.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Source of random numbers for one case. Cases do not share a source, so that a new or longer case does not change
    /// other cases.
    pub(crate) fn of_case(seed: u64, suite: &str, number: usize) -> Self {
        let mut state = seed;
        for byte in suite.bytes().chain(number.to_le_bytes()) {
            state = Self(state ^ u64::from(byte)).next();
        }
        Self(state)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Number below `bound`, which must not be zero. The bias of the remainder does not matter here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("invariant: usize fits into u64");
        usize::try_from(self.next() % bound).expect("invariant: below a usize")
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Up to `most` random items. An item may occur several times.
    pub(crate) fn some<T: Clone>(&mut self, items: &[T], most: usize) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| self.pick(items)).collect()
    }
}
