//! Certificate authority of the lab, and the certificates of its servers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use talmox_net::{authorities, tls};
use talmox_talos_config::pki::{
    AltName, Authority, AuthorityRequest, Certificate, KeyKind, LeafRequest, Name, PkiError,
    PrivateKey, Usage, new_authority,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;

/// Start of the validity period. Lab time may differ from real time, so the certificates are valid at any time.
const NOT_BEFORE: UnixTime = UnixTime::from_seconds(0);
const LIFETIME: Duration = Duration::from_hours(1000 * 365 * 24);

/// Certificate authority and server certificates with their keys, in DER.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    authority: Vec<u8>,
    authority_key: Vec<u8>,
    hosts: Leaf,
    factory: Leaf,
}

/// Server certificate with its key and its names.
#[derive(Clone, Serialize, Deserialize)]
struct Leaf {
    certificate: Vec<u8>,
    key: Vec<u8>,
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Identity {
    /// Creates an authority and two server certificates: one with the names of the hosts, and one with the names of the Image
    /// Factory. Both contain the address that the lab listens on.
    pub(crate) fn new(hosts: &[&str], factory: &[&str], address: IpAddr) -> Result<Self, PkiError> {
        let request = AuthorityRequest {
            subject: subject("Proxmox Virtual Environment (talmox lab)"),
            kind: KeyKind::EcdsaP256,
            not_before: NOT_BEFORE,
            lifetime: LIFETIME,
        };
        let authority = new_authority(&request, &mut SystemRandomness::new())?;
        let leaf = |names| Leaf::signed_by(&authority, names, addresses(address));
        Ok(Self {
            hosts: leaf(owned(hosts))?,
            factory: leaf(owned(factory))?,
            authority: authority.certificate.as_der().to_vec(),
            authority_key: authority.key.to_pkcs8().to_vec(),
        })
    }

    /// Issues new server certificates with the same CA if a name or an address is missing in the present ones. Returns `None`
    /// if nothing is missing.
    pub(crate) fn reissued(
        &self,
        hosts: &[&str],
        factory: &[&str],
        address: IpAddr,
    ) -> Result<Option<Self>, PkiError> {
        let (hosts, factory, addresses) = (owned(hosts), owned(factory), addresses(address));
        if self.hosts.is_for(&hosts, &addresses) && self.factory.is_for(&factory, &addresses) {
            return Ok(None);
        }
        let authority = Authority {
            certificate: self.authority()?,
            key: PrivateKey::from_pkcs8(&self.authority_key)?,
        };
        // The new certificate keeps the earlier names and addresses, so that clients that still use them can connect.
        let renew = |leaf: &Leaf, names: &BTreeSet<String>| {
            Leaf::signed_by(&authority, names | &leaf.names, &addresses | &leaf.addresses)
        };
        Ok(Some(Self {
            hosts: renew(&self.hosts, &hosts)?,
            factory: renew(&self.factory, &factory)?,
            ..self.clone()
        }))
    }

    /// SHA-256 fingerprint of the certificate of the hosts, in the format of Proxmox.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.hosts.certificate);
        let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// CA certificate as PEM, which clients use to verify the servers.
    pub(crate) fn authority_pem(&self) -> Result<String, PkiError> {
        self.authority().map(|certificate| certificate.to_pem())
    }

    /// Public key of the Image Factory as PEM.
    pub(crate) fn factory_key_pem(&self) -> Result<String, PkiError> {
        PrivateKey::from_pkcs8(&self.factory.key).map(|key| key.public_pem())
    }

    /// Trust store with the CA of the lab, for clients inside the lab.
    pub(crate) fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        authorities::from_der(&self.authority)
    }

    /// TLS server settings of the simulated Proxmox hosts.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, rustls::Error> {
        self.hosts.server_config(&self.authority)
    }

    /// TLS server settings of the simulated Image Factory.
    pub(crate) fn factory_config(&self) -> Result<ServerConfig, rustls::Error> {
        self.factory.server_config(&self.authority)
    }

    fn authority(&self) -> Result<Certificate, PkiError> {
        Certificate::from_der(self.authority.clone()).ok_or(PkiError::NotCertificate)
    }
}

impl Leaf {
    fn signed_by(
        authority: &Authority,
        names: BTreeSet<String>,
        addresses: BTreeSet<IpAddr>,
    ) -> Result<Self, PkiError> {
        let all = names.iter().map(String::as_str).chain(["localhost"]).collect::<BTreeSet<_>>();
        let all = all.into_iter().map(|name| AltName::Dns(name.to_owned()));
        let request = LeafRequest {
            subject: subject(names.first().map_or("localhost", String::as_str)),
            alt_names: all.chain(addresses.iter().copied().map(AltName::Ip)).collect(),
            usage: Usage::Server,
            key_encipherment: false,
            not_before: NOT_BEFORE,
            lifetime: LIFETIME,
        };
        let (certificate, key) = authority.issue(&request, &mut SystemRandomness::new())?;
        let certificate = certificate.as_der().to_vec();
        Ok(Self { certificate, key: key.to_pkcs8().to_vec(), names, addresses })
    }

    fn is_for(&self, names: &BTreeSet<String>, addresses: &BTreeSet<IpAddr>) -> bool {
        names.is_subset(&self.names) && addresses.is_subset(&self.addresses)
    }

    /// TLS server settings with versions 1.2 and 1.3, like those of `pveproxy`.
    fn server_config(&self, authority: &[u8]) -> Result<ServerConfig, rustls::Error> {
        let chain = vec![
            CertificateDer::from(self.certificate.clone()),
            CertificateDer::from(authority.to_vec()),
        ];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        tls::server()?.with_no_client_auth().with_single_cert(chain, key)
    }
}

fn owned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Loopback addresses, and the address that the lab listens on.
fn addresses(address: IpAddr) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::from([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    if !address.is_unspecified() {
        addresses.insert(address);
    }
    addresses
}

fn subject(name: &str) -> Name {
    Name { organizations: vec!["talmox lab".to_owned()], common_name: Some(name.to_owned()) }
}
