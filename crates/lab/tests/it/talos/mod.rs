//! Talos nodes, as our own client sees them, and Talos's own.

mod api;
mod apply;
mod cable;
mod departure;
mod effect;
mod fault;
mod forward;
mod kubectl;
mod learner;
mod log;
mod matrix;
mod mode;
mod newest;
mod oracle;
mod partition;
mod probe;
mod raw;
mod release;
mod sequence;
mod service;
mod setting;
mod story;
mod upkeep;
mod world;
