//! Simulated Kubernetes API server with controllers.
//!
//! One [`KubeStore`] holds the objects of a cluster. Any number of listeners can serve one store ([`serve`]), so that every
//! control-plane node and the shared endpoint have a server of their own. [`control`] runs the controller manager, the
//! scheduler and the kubelets. [`KubeStore::start_kubelet`] and [`KubeStore::stop_kubelet`] add and remove machines.
//!
//! The simulation is not complete. Validation covers common mistakes. Each built-in kind has one version. Admission webhooks,
//! version conversion and quotas are missing.

mod admission;
mod answer;
mod auth;
mod body;
mod bootstrap;
mod broken_budget;
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
mod impersonation;
mod internal;
mod kind;
mod label;
mod mirror;
pub mod object;
mod patch;
mod printer;
mod proto;
mod request;
mod requirement;
mod saved_store;
mod schema;
mod security;
mod selector;
mod server;
mod store;
mod tls;
mod token;
mod validate;
mod watch;
mod write;
mod yaml;

pub use answer::ask;
pub use broken_budget::BrokenBudget;
pub use controller::{KubeControllers, Machine, control};
pub use failure::Failure;
pub use heartbeat::micro_time;
pub use host::{Connections, Receiving, RequestFate, ServerHost};
pub use mirror::HELD;
pub use request::{decode, query};
pub use saved_store::SavedStore;
pub use server::{ApiServer, KubeServer, Memory, collect, serve, serve_at};
pub use store::{KubeSettings, KubeStore};
pub use tls::KubeTls;
pub use yaml::{read_all as read_yaml, to_json as yaml_to_json};
