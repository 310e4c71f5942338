//! Client of the Talos API.
//!
//! - A [`Client`] talks directly to one node.
//! - [`probe()`] identifies the machine or server that answers at an address.
//! - [`health`] checks a cluster, and [`quorum`] checks its etcd.
//! - [`wait`] waits for a condition of a node, and [`follow`] waits for the end of a restart.
//! - [`upgrade`] installs another Talos version.
//!
//! This crate does not print. It uses the time of `talmox-clock`. `Debug` hides every value that may contain keys.
//!
//! The feature `server` adds the server side of the API.

pub mod address;
pub mod client;
pub mod credentials;
pub mod dial;
pub mod error;
pub mod etcd_state;
pub mod follow;
pub mod health;
pub mod machine;
pub mod pin;
pub mod probe;
pub mod proto;
pub mod quorum;
#[cfg(feature = "server")]
pub mod server;
pub mod upgrade;
pub mod wait;

mod archive;
mod channel;
mod node_service;
mod tls;
mod trace;

pub use address::{node_address, parse_node_address};
pub use client::{Client, Limits, Settings};
pub use credentials::{Credentials, CredentialsError};
pub use dial::DialError;
pub use error::{Call, TalosError};
pub use etcd_state::{BootstrapRequest, EtcdState};
pub use follow::{Follow, FollowError};
pub use machine::{Expected, Machine};
pub use pin::{BadPin, Pin};
pub use probe::{Verdict, probe};
pub use talmox_net::{ConnectError, Reach};
pub use talmox_values::Address;
pub use tls::SetupError;
pub use tonic::Code;
pub use upgrade::UpgradePath;
pub use wait::{Look, LookError};
