//! Steps and the executor, against a lab.

mod change_vm;
mod create;
mod destroy;
mod executor;
mod factory;
mod fault;
mod image;
mod killed_run;
mod migrate_vm;
mod proxmox_pitfall;
mod rig;
mod stop;
mod template;
mod volume;
mod website;
