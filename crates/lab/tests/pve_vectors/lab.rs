//! Lab for one vector, with operations that take no time and with temporary state.

use std::fs;
use std::sync::Arc;

use talmox_lab::pve::Profile;
use talmox_lab::{Lab, Scenario, Settings};
use tokio::runtime::{Builder, Runtime};

use crate::client::Client;

pub(crate) struct Labs {
    runtime: Runtime,
}

impl Labs {
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        Ok(Self { runtime: runtime.map_err(|error| error.to_string())? })
    }

    pub(crate) fn start(&self, scenario: Scenario) -> Result<Lab, String> {
        let _inside = self.runtime.enter();
        let settings = Settings { scenario, profile: Profile::Instant, ..Settings::default() };
        Lab::start(settings).map_err(|error| error.to_string())
    }

    pub(crate) fn stop(&self, lab: Lab) -> Result<(), String> {
        self.runtime.block_on(lab.stop()).map_err(|error| error.to_string())
    }
}

/// Client that trusts only the CA of the lab.
pub(crate) fn client(lab: &Lab) -> Result<Client, String> {
    let ready = lab.ready();
    let pem = fs::read(&ready.pve.ca).map_err(|error| error.to_string())?;
    let roots = talmox_net::authorities::from_pem(&pem).map_err(|error| error.to_string())?;
    let tls = talmox_net::tls::client()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Client::new(lab.address(), Arc::new(tls)))
}
