//! Steps and the executor, against a lab.

mod change_vm;
mod create;
mod cut;
mod destroy;
mod executor;
mod factory;
mod fault;
mod image;
mod migrate_vm;
mod rig;
mod stop;
mod template;
mod trap;
mod volume;
mod website;
