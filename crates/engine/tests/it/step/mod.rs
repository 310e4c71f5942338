//! The steps that concern Talos and Kubernetes, against nodes that say what a test wants.

mod node;
mod rig;

mod addon;
mod bootstrap;
mod config;
mod join;
mod proxmox;
mod report;
mod status;
