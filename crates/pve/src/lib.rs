//! Client of the Proxmox VE API.
//!
//! A request is a value: [`api`] (of `talmox-pve-types`) creates it, and [`Client`] sends it. This crate does not
//! print. It uses time and random numbers of `talmox-clock`.
//!
//! ```no_run
//! use std::time::Duration;
//! use talmox_clock::Clock;
//! use talmox_pve::api::{cluster, qemu};
//! use talmox_pve::client::{Client, Credentials, Endpoint, Limits, Settings, Timeouts, Trust};
//! use talmox_pve::id::VmId;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Settings {
//!     endpoints: vec![Endpoint::new("atlas", 8006)],
//!     trust: Trust::System,
//!     credentials: Credentials::Token("talmox@pve!ci=01234567-89ab".parse()?),
//!     limits: Limits::default(),
//!     timeouts: Timeouts::default(),
//!     clock: Clock::real(),
//!     seed: 0,
//! })?;
//! let version = client.send(&cluster::version()).await?;
//! println!("{}", version.release);
//!
//! let vm = qemu::Vm::new(&"atlas".parse()?, VmId::new(300)?);
//! match client.run(&qemu::start(&vm), Duration::from_mins(2)).await {
//!     Ok(done) => println!("running, with {} warnings", done.warnings),
//!     Err(error) if error.is_locked() => println!("retry later"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod error;
pub mod fingerprint;

mod response;
mod tls;
mod untrusted;

pub use client::Client;
pub use error::PveError;
pub use talmox_pve_types::wire::Unreadable;
pub use talmox_pve_types::{Request, SecretText, api, config, id, property, request};
pub use tls::TrustError;
