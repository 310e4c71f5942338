//! The Talos API as talmox speaks to it.
//!
//! A [`Client`] speaks to one node, directly; [`probe()`] says what is at an address before anybody
//! speaks to it; [`health`] judges a cluster, [`quorum`] its etcd; [`wait`] waits for a node and says
//! for what, [`follow`] follows a restart to its end, [`upgrade`] installs another Talos. Nothing here
//! prints, time comes from `talmox-clock`, and what may hold keys does not show itself.
//!
//! With the feature `server` there is the other side of the same stubs.

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
pub use wait::{Look, Wait, WaitError};
