//! Talos nodes, as our own client sees them, and Talos's own.

mod api;
mod effect;
mod fault;
mod forward;
mod kubectl;
mod oracle;
mod partition;
mod raw;
mod sequence;
mod world;
