//! The lab's own certificate authority, and the certificate that its servers show.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

/// What a server needs, in DER, and what its next certificate is signed with.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    authority: Vec<u8>,
    /// States of old have none: their certificate stays as it is.
    #[serde(default)]
    authority_key: Option<Vec<u8>>,
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// What the certificate is for, beside names.
    #[serde(default)]
    addresses: BTreeSet<IpAddr>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Identity {
    /// Makes an authority, and a certificate for this machine, under the names of the hosts and the
    /// address that the lab listens on.
    pub(crate) fn new<'n>(
        names: impl Iterator<Item = &'n str>,
        address: IpAddr,
    ) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let authority_key = key.serialize_der();
        let authority = CertifiedIssuer::self_signed(authority(), key)?;
        let addresses = addresses(address);
        let (certificate, key) = issue(names, &addresses, &authority)?;
        let authority_key = Some(authority_key);
        Ok(Self { authority: authority.der().to_vec(), authority_key, certificate, key, addresses })
    }

    /// The same authority's certificate for an address that this one does not name; none if it does.
    pub(crate) fn reissued<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        address: IpAddr,
    ) -> Result<Option<Self>, rcgen::Error> {
        let Some(authority_key) = &self.authority_key else { return Ok(None) };
        let addresses = addresses(address);
        if addresses.is_subset(&self.addresses) {
            return Ok(None);
        }
        // Those who know an earlier address still find its name in the certificate.
        let addresses = &addresses | &self.addresses;
        let issuer = Issuer::new(authority(), KeyPair::try_from(authority_key.as_slice())?);
        let (certificate, key) = issue(names, &addresses, &issuer)?;
        Ok(Some(Self { certificate, key, addresses, ..self.clone() }))
    }

    /// SHA-256 of the certificate, as Proxmox shows it.
    pub(crate) fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.certificate);
        let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The authority's certificate, for clients.
    pub(crate) fn authority_pem(&self) -> String {
        let text = STANDARD.encode(&self.authority);
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for line in text.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// For clients inside the lab: whom this authority vouches for is believed.
    pub(crate) fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.clone()))?;
        Ok(roots)
    }

    /// TLS 1.2 and 1.3, as pveproxy has them.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![
            CertificateDer::from(self.certificate.clone()),
            CertificateDer::from(self.authority.clone()),
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

/// Loopback, and the address that the lab listens on.
fn addresses(address: IpAddr) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::from([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    if !address.is_unspecified() {
        addresses.insert(address);
    }
    addresses
}

/// A certificate for these names and addresses, and its key.
fn issue<'n>(
    names: impl Iterator<Item = &'n str>,
    addresses: &BTreeSet<IpAddr>,
    authority: &Issuer<'_, KeyPair>,
) -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
    let mut names: Vec<&str> = names.collect();
    let first = names.first().copied().unwrap_or("localhost");
    let mut server = CertificateParams::default();
    server.distinguished_name = common_name(first);
    names.push("localhost");
    for name in names {
        server.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    server.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, authority)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::OrganizationName, "talmox lab");
    distinguished.push(DnType::CommonName, name);
    distinguished
}
