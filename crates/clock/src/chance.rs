use std::time::Duration;

/// Deterministic random numbers, derived from a seed and names.
///
/// There is no shared stream of numbers. Each number is derived from the seed, the name of an object and the number of
/// the operation on this object. Therefore a run can be repeated, even if its parts interleave differently.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
    is_even: bool,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed), is_even: false }
    }

    /// Source without jitter, for benchmarks that compare measured times with expected times.
    pub fn even(seed: u64) -> Self {
        Self { is_even: true, ..Self::new(seed) }
    }

    /// Whether jitter is disabled.
    pub fn is_even(&self) -> bool {
        self.is_even
    }

    /// Source for the nth operation on an object.
    #[must_use]
    pub fn of(&self, object: &str, nth: u64) -> Self {
        let mut state = self.state;
        for byte in object.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self { state: mix(state ^ nth.rotate_left(32)), is_even: self.is_even }
    }

    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Random number from 0 up to, but not including, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    /// Random number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.number() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// Random time between 50 % and 150 % of `time`, or `time` itself if jitter is disabled.
    pub fn jitter(&mut self, time: Duration) -> Duration {
        if self.is_even {
            return time;
        }
        time.mul_f64(0.5 + self.share())
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.number().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// Finalizer of SplitMix64: every bit of the input affects every bit of the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_reproducible() {
        let draw = |seed, object: &str, nth| Chance::new(seed).of(object, nth).number();
        assert_eq!(draw(7, "vm/300", 2), draw(7, "vm/300", 2));
        let all = [
            draw(7, "vm/300", 2),
            draw(8, "vm/300", 2),
            draw(7, "vm/301", 2),
            draw(7, "vm/300", 3),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{all:?}");
        }
    }

    #[test]
    fn random_numbers_stay_in_their_range() {
        let mut chance = Chance::new(1);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(chance.below(10)).unwrap()] += 1;
            let time = chance.jitter(Duration::from_secs(2));
            assert!((Duration::from_secs(1)..=Duration::from_secs(3)).contains(&time));
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(chance.below(0), 0);
    }

    #[test]
    fn even_chance_has_no_jitter() {
        let (mut even, time) = (Chance::even(7).of("vm/300", 2), Duration::from_secs(2));
        assert!(even.is_even() && !Chance::new(7).is_even());
        assert_eq!((even.jitter(time), even.jitter(time)), (time, time));
        assert_eq!(even.number(), Chance::new(7).of("vm/300", 2).number());
    }
}
