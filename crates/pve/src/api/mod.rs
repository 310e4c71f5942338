//! The calls of the API that talmox makes, each a function from typed arguments to a [`Request`](crate::Request).

pub mod access;
pub mod cluster;
pub mod ha;
pub mod mapping;
pub mod node;
pub mod pool;
pub mod qemu;
pub mod storage;
pub mod task;
