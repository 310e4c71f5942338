//! The lab's own certificate authority, and the certificates that its servers show.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

/// What servers need, in DER, and what their next certificates are signed with.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    authority: Vec<u8>,
    authority_key: Vec<u8>,
    hosts: Leaf,
    factory: Leaf,
}

/// A certificate, its key, and what it is for.
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
    /// Makes an authority, and certificates for this machine: under the names of the hosts, and under
    /// those of the Image Factory, both with the address that the lab listens on.
    pub(crate) fn new(
        hosts: &[&str],
        factory: &[&str],
        address: IpAddr,
    ) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let authority_key = key.serialize_der();
        let authority = CertifiedIssuer::self_signed(authority(), key)?;
        let leaf = |names| Leaf::signed_by(&authority, names, addresses(address));
        Ok(Self {
            hosts: leaf(owned(hosts))?,
            factory: leaf(owned(factory))?,
            authority: authority.der().to_vec(),
            authority_key,
        })
    }

    /// The same authority's certificates for what the present ones do not name; none if they do.
    pub(crate) fn reissued(
        &self,
        hosts: &[&str],
        factory: &[&str],
        address: IpAddr,
    ) -> Result<Option<Self>, rcgen::Error> {
        let (hosts, factory, addresses) = (owned(hosts), owned(factory), addresses(address));
        if self.hosts.is_for(&hosts, &addresses) && self.factory.is_for(&factory, &addresses) {
            return Ok(None);
        }
        let key = KeyPair::try_from(self.authority_key.as_slice())?;
        let issuer = Issuer::new(authority(), key);
        // Those who know an earlier name or address still find it there.
        let renew = |leaf: &Leaf, names: &BTreeSet<String>| {
            Leaf::signed_by(&issuer, names | &leaf.names, &addresses | &leaf.addresses)
        };
        Ok(Some(Self {
            hosts: renew(&self.hosts, &hosts)?,
            factory: renew(&self.factory, &factory)?,
            ..self.clone()
        }))
    }

    /// SHA-256 of the certificate, as Proxmox shows it.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.hosts.certificate);
        let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The authority's certificate, for clients.
    pub(crate) fn authority_pem(&self) -> String {
        pem("CERTIFICATE", &self.authority)
    }

    /// The public key of the Image Factory.
    pub(crate) fn factory_key_pem(&self) -> Result<String, rcgen::Error> {
        let key = PrivatePkcs8KeyDer::from(self.factory.key.as_slice());
        Ok(pem("PUBLIC KEY", &KeyPair::try_from(&key)?.subject_public_key_info()))
    }

    /// For clients inside the lab: whom this authority vouches for is believed.
    pub(crate) fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.clone()))?;
        Ok(roots)
    }

    /// For who speaks as the hosts.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, rustls::Error> {
        self.hosts.server_config(&self.authority)
    }

    /// For who speaks as the Image Factory.
    pub(crate) fn factory_config(&self) -> Result<ServerConfig, rustls::Error> {
        self.factory.server_config(&self.authority)
    }
}

impl Leaf {
    fn signed_by(
        authority: &Issuer<'_, KeyPair>,
        names: BTreeSet<String>,
        addresses: BTreeSet<IpAddr>,
    ) -> Result<Self, rcgen::Error> {
        let mut server = CertificateParams::default();
        server.distinguished_name = common_name(names.first().map_or("localhost", String::as_str));
        let all = names.iter().map(String::as_str).chain(["localhost"]);
        for name in all.collect::<BTreeSet<_>>() {
            server.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        server.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, authority)?.der().to_vec();
        Ok(Self { certificate, key: key.serialize_der(), names, addresses })
    }

    fn is_for(&self, names: &BTreeSet<String>, addresses: &BTreeSet<IpAddr>) -> bool {
        names.is_subset(&self.names) && addresses.is_subset(&self.addresses)
    }

    /// TLS 1.2 and 1.3, as pveproxy has them.
    fn server_config(&self, authority: &[u8]) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![
            CertificateDer::from(self.certificate.clone()),
            CertificateDer::from(authority.to_vec()),
        ];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_no_client_auth()
            .with_single_cert(chain, key)
    }
}

/// The authority as its certificate describes it.
fn authority() -> CertificateParams {
    let mut authority = CertificateParams::default();
    authority.distinguished_name = common_name("Proxmox Virtual Environment (talmox lab)");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority
}

fn owned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Loopback, and the address that the lab listens on.
fn addresses(address: IpAddr) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::from([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    if !address.is_unspecified() {
        addresses.insert(address);
    }
    addresses
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::OrganizationName, "talmox lab");
    distinguished.push(DnType::CommonName, name);
    distinguished
}
