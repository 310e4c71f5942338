//! Talos nodes, as our own client sees them.

mod api;
mod forward;
mod raw;
mod sequence;
mod world;
