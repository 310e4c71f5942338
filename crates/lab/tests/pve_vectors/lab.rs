//! A lab for each vector.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use talmox_lab::Scenario;
use tokio::runtime::{Builder, Runtime};

use crate::client::Client;

pub(crate) struct Labs {
    runtime: Runtime,
}

pub(crate) struct Running {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Labs {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())? })
    }

    pub(crate) fn start(&self, _scenario: Scenario) -> Result<Running, String> {
        Err("stub".to_owned())
    }

    pub(crate) fn stop(&self, _lab: Running) {}
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, Arc::clone(&self.tls))
    }
}
