//! A simulated Kubernetes API: what clients of a cluster can see of it, and what happens behind it.
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
mod heartbeat;
mod host;
mod impersonate;
mod inside;
mod kind;
mod label;
pub mod object;
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

pub use answer::ask;
pub use controller::{KubeControllers, Machine, control};
pub use failure::Failure;
pub use heartbeat::micro_time;
pub use host::{Connections, Receiving, RequestFate, ServerHost};
pub use request::{decode, query};
pub use saved::SavedStore;
pub use server::{ApiServer, KubeServer, Memory, collect, serve, serve_at};
pub use shadow::HELD;
pub use store::{KubeSettings, KubeStore};
pub use tls::KubeTls;
pub use yaml::{read_all as read_yaml, to_json as yaml_to_json};
