//! Everything that is tested from outside, in one program.

mod vector_comparison;
#[path = "../pve_vectors/wildcard.rs"]
mod wildcard;
