//! A Kubernetes API: what clients of a cluster can see of it, and what happens behind it.
//!
//! One [`KubeStore`] is a cluster's memory. Any number of listeners serve it ([`serve`]), so that
//! every control plane and the shared address can have one that comes and goes. [`control`] runs
//! what the controller manager, the scheduler and the kubelets do; [`KubeStore::start_kubelet`] and
//! its like tell it which machines there are.
//!
//! It is no second API server: objects are believed where they are not plainly wrong, there is one
//! version of each built-in kind, no admission by webhooks, no conversion, no quota.

mod admit;
mod answer;
mod auth;
mod body;
mod bootstrap;
mod builtin;
mod controller;
mod custom;
mod defaults;
mod discovery;
mod endpoint;
mod failure;
mod fields;
pub(crate) mod heartbeat;
mod impersonate;
mod inside;
mod kind;
mod label;
pub(crate) mod object;
mod patch;
mod printer;
mod proto;
mod request;
mod requirement;
mod saved;
mod schema;
mod security;
mod selector;
mod server;
mod shadow;
mod store;
mod tls;
mod token;
mod validate;
mod watch;
mod write;
mod yaml;

#[cfg(test)]
pub(crate) use answer::ask;
pub use controller::{KubeControllers, Machine, control};
pub use failure::Failure;
pub(crate) use heartbeat::micro_time;
pub(crate) use request::{decode, query};
pub(crate) use saved::SavedStore;
pub(crate) use server::collect;
pub(crate) use server::{ApiServer, Door, Memory, serve_at};
pub use server::{KubeServer, serve};
pub(crate) use shadow::HELD;
pub use store::{KubeSettings, KubeStore};
pub use tls::KubeTls;
pub(crate) use yaml::{read_all as read_yaml, to_json as yaml_to_json};
