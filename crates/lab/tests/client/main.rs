//! Tests of the Proxmox client against the lab, with and without faults.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod behaviour;
mod cluster;
mod kill;
mod machine;
mod matrix;
mod rig;
mod server;
mod session;
mod vm_lifecycle;
