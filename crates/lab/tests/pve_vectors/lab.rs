//! A lab for each vector: nothing takes time in it, and nothing is left of it.

use std::fs;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
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

/// A client that trusts the lab's own authority, and no other.
pub(crate) fn client(lab: &Lab) -> Result<Client, String> {
    let ready = lab.ready();
    let pem = fs::read(&ready.pve.ca).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&pem).map_err(|error| error.to_string())?;
    roots.add(authority).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Client::new(lab.address(), Arc::new(tls)))
}
