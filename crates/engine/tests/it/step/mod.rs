//! Tests of steps that use Talos and Kubernetes, against nodes whose answers each test defines.

mod node;
mod rig;

mod addon;
mod bootstrap;
mod change_config;
mod config;
mod drain_node;
mod join;
mod proxmox;
mod report;
mod status;
