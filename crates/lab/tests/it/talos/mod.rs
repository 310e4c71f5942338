//! Talos nodes, as our own client sees them, and Talos's own.

mod api;
mod forward;
mod kubectl;
mod oracle;
mod raw;
mod sequence;
mod world;
