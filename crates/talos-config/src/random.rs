//! Random bytes, from a source that the caller provides.
//!
//! The cryptographic library uses its own random numbers for the primes of an RSA key and for the nonces of ECDSA
//! signatures.

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};

/// Source of random bytes.
pub trait Randomness {
    fn fill(&mut self, bytes: &mut [u8]);
}

/// Random bytes of the operating system.
#[derive(Debug)]
pub struct SystemRandomness(SystemRandom);

impl SystemRandomness {
    pub fn new() -> Self {
        Self(SystemRandom::new())
    }
}

impl Default for SystemRandomness {
    fn default() -> Self {
        Self::new()
    }
}

impl Randomness for SystemRandomness {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("invariant: the operating system gives randomness");
    }
}

/// Array of random bytes.
pub(crate) fn array<const N: usize>(randomness: &mut dyn Randomness) -> [u8; N] {
    let mut bytes = [0; N];
    randomness.fill(&mut bytes);
    bytes
}

/// Deterministic bytes, which are the same in every run.
#[cfg(test)]
pub(crate) struct Seeded(pub(crate) u64);

#[cfg(test)]
impl Randomness for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            // SplitMix64.
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = z.to_le_bytes()[7];
        }
    }
}
