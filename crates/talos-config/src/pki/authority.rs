//! Certificate authorities (CAs) and the certificates that they sign.

use std::net::IpAddr;
use std::time::Duration;

use super::PkiError;
use super::certificate::{AltName, Certificate, Name};
use super::der;
use super::key::{KeyKind, PrivateKey};
use crate::random::{self, Randomness};
use crate::time::UnixTime;

const OID_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const OID_EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const OID_BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const OID_SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const OID_AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const OID_ALT_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const OID_SERVER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const OID_CLIENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const OID_ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const OID_RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d];

const NULL: &[u8] = &[0x05, 0x00];

/// Content of a new CA certificate.
#[derive(Clone, Debug)]
pub struct AuthorityRequest {
    /// Subject. It may be empty, as in the CA of the aggregator.
    pub subject: Name,
    pub kind: KeyKind,
    pub not_before: UnixTime,
    pub lifetime: Duration,
}

/// Usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Client,
    Server,
    Both,
}

/// Content of a certificate that a CA signs.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    pub subject: Name,
    pub alt_names: Vec<AltName>,
    pub usage: Usage,
    /// Whether the key usage includes keyEncipherment. It does for certificates of Kubernetes and etcd, but not for
    /// certificates of the Talos API.
    pub key_encipherment: bool,
    pub not_before: UnixTime,
    pub lifetime: Duration,
}

/// CA certificate with its key.
#[derive(Debug)]
pub struct Authority {
    pub certificate: Certificate,
    pub key: PrivateKey,
}

/// Creates a self-signed CA.
pub fn new_authority(
    request: &AuthorityRequest,
    randomness: &mut dyn Randomness,
) -> Result<Authority, PkiError> {
    let key = PrivateKey::generate(request.kind, randomness);
    let key_id: [u8; 20] = random::array(randomness);
    let subject = request.subject.to_der();
    let extensions = [
        // digitalSignature and keyCertSign.
        extension(OID_KEY_USAGE, true, &[der::BIT_STRING, 2, 2, 0x84]),
        extension(OID_EXTENDED_KEY_USAGE, false, &extended_usage(Usage::Both)),
        extension(OID_BASIC_CONSTRAINTS, true, &der::sequence(&[&[der::BOOLEAN, 1, 0xff]])),
        extension(OID_SUBJECT_KEY_ID, false, &der::value(der::OCTET_STRING, &key_id)),
    ];
    let body = Body {
        issuer: &subject,
        subject: &subject,
        not_before: request.not_before,
        not_after: request.not_before.plus(request.lifetime),
        public_key: &key.public_der(),
        extensions: &extensions.concat(),
    };
    let certificate = body.sign(&key, randomness)?;
    Ok(Authority { certificate, key })
}

impl Authority {
    /// Parses a certificate and its key. They must match.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, PkiError> {
        let certificate = Certificate::from_pem(certificate)?;
        let key = PrivateKey::from_pem(key)?;
        if !certificate.belongs_to(&key) {
            return Err(PkiError::KeyMismatch);
        }
        Ok(Self { certificate, key })
    }

    /// Generates a key of the same kind as the key of the CA, and signs a certificate for it.
    pub fn issue(
        &self,
        request: &LeafRequest,
        randomness: &mut dyn Randomness,
    ) -> Result<(Certificate, PrivateKey), PkiError> {
        let key = PrivateKey::generate(self.key.kind(), randomness);
        let certificate = self.sign(request, &key.public_der(), randomness)?;
        Ok((certificate, key))
    }

    /// Signs a certificate for a public key.
    pub fn sign(
        &self,
        request: &LeafRequest,
        public_key: &[u8],
        randomness: &mut dyn Randomness,
    ) -> Result<Certificate, PkiError> {
        let body = Body {
            issuer: self.certificate.subject_der(),
            subject: &request.subject.to_der(),
            not_before: request.not_before,
            not_after: request.not_before.plus(request.lifetime),
            public_key,
            extensions: &request.extensions(self.certificate.subject_key_id()),
        };
        body.sign(&self.key, randomness)
    }
}

/// Generates a key and a self-signed certificate, for a server that clients identify by its fingerprint.
pub fn self_signed(
    request: &LeafRequest,
    kind: KeyKind,
    randomness: &mut dyn Randomness,
) -> Result<(Certificate, PrivateKey), PkiError> {
    let key = PrivateKey::generate(kind, randomness);
    let subject = request.subject.to_der();
    let body = Body {
        issuer: &subject,
        subject: &subject,
        not_before: request.not_before,
        not_after: request.not_before.plus(request.lifetime),
        public_key: &key.public_der(),
        extensions: &request.extensions(None),
    };
    let certificate = body.sign(&key, randomness)?;
    Ok((certificate, key))
}

impl LeafRequest {
    fn extensions(&self, authority_key_id: Option<&[u8]>) -> Vec<u8> {
        let usage_bits = if self.key_encipherment {
            [der::BIT_STRING, 2, 5, 0xa0]
        } else {
            [der::BIT_STRING, 2, 7, 0x80]
        };
        let mut extensions = extension(OID_KEY_USAGE, true, &usage_bits);
        let usage = extended_usage(self.usage);
        extensions.extend(extension(OID_EXTENDED_KEY_USAGE, false, &usage));
        if let Some(id) = authority_key_id {
            let id = der::sequence(&[&der::value(der::context(0, false), id)]);
            extensions.extend(extension(OID_AUTHORITY_KEY_ID, false, &id));
        }
        if !self.alt_names.is_empty() {
            let names: Vec<_> = self.alt_names.iter().map(alt_name).collect();
            let names = der::value(der::SEQUENCE, &names.concat());
            extensions.extend(extension(OID_ALT_NAMES, false, &names));
        }
        extensions
    }
}

struct Body<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    not_before: UnixTime,
    not_after: UnixTime,
    public_key: &'a [u8],
    extensions: &'a [u8],
}

impl Body<'_> {
    fn sign(
        &self,
        key: &PrivateKey,
        randomness: &mut dyn Randomness,
    ) -> Result<Certificate, PkiError> {
        let algorithm = signature_algorithm(key.kind());
        let serial: [u8; 16] = random::array(randomness);
        let extensions = der::value(der::SEQUENCE, self.extensions);
        let body = der::sequence(&[
            // X.509 version 3.
            &der::value(der::context(0, true), &der::integer(&[2])),
            &der::integer(&serial),
            &algorithm,
            self.issuer,
            &der::sequence(&[&der::time(self.not_before), &der::time(self.not_after)]),
            self.subject,
            self.public_key,
            &der::value(der::context(3, true), &extensions),
        ]);
        let signature = der::bit_string(&key.sign(&body)?);
        let bytes = der::sequence(&[&body, &algorithm, &signature]);
        Certificate::from_der(bytes).ok_or(PkiError::NotCertificate)
    }
}

fn signature_algorithm(kind: KeyKind) -> Vec<u8> {
    let oid = |oid| der::value(der::OID, oid);
    match kind {
        KeyKind::Ed25519 => der::sequence(&[&oid(OID_ED25519)]),
        KeyKind::EcdsaP256 => der::sequence(&[&oid(OID_ECDSA_SHA256)]),
        KeyKind::Rsa4096 => der::sequence(&[&oid(OID_RSA_SHA512), NULL]),
    }
}

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let flag: &[u8] = if critical { &[der::BOOLEAN, 1, 0xff] } else { &[] };
    der::sequence(&[&der::value(der::OID, oid), flag, &der::value(der::OCTET_STRING, content)])
}

fn extended_usage(usage: Usage) -> Vec<u8> {
    let oids: &[&[u8]] = match usage {
        Usage::Client => &[OID_CLIENT],
        Usage::Server => &[OID_SERVER],
        Usage::Both => &[OID_SERVER, OID_CLIENT],
    };
    let oids: Vec<_> = oids.iter().map(|oid| der::value(der::OID, oid)).collect();
    der::value(der::SEQUENCE, &oids.concat())
}

fn alt_name(name: &AltName) -> Vec<u8> {
    match name {
        AltName::Dns(name) => der::value(der::context(2, false), name.as_bytes()),
        AltName::Ip(IpAddr::V4(ip)) => der::value(der::context(7, false), &ip.octets()),
        AltName::Ip(IpAddr::V6(ip)) => der::value(der::context(7, false), &ip.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
    const YEAR: Duration = Duration::from_hours(365 * 24);

    fn authority(kind: KeyKind, subject: Name) -> Authority {
        let request = AuthorityRequest { subject, kind, not_before: NOW, lifetime: YEAR * 10 };
        new_authority(&request, &mut Seeded(11)).unwrap()
    }

    #[test]
    fn authorities_round_trip_through_pem() {
        for kind in [KeyKind::Ed25519, KeyKind::EcdsaP256] {
            let made = authority(kind, Name::organization("talos"));
            let certificate = made.certificate.to_pem();
            let key = made.key.to_pem();
            let back = Authority::from_pem(&certificate, key.expose()).unwrap();
            assert_eq!(back.certificate, made.certificate);
            assert_eq!(back.certificate.subject.to_string(), "O=talos");
            assert_eq!(back.certificate.issuer, back.certificate.subject);
            assert_eq!(back.certificate.not_after, NOW.plus(YEAR * 10));
            let other = authority(kind, Name::default());
            let mut randomness = Seeded(12);
            let foreign = PrivateKey::generate(kind, &mut randomness).to_pem();
            assert_eq!(other.certificate.subject.to_string(), "");
            assert!(matches!(
                Authority::from_pem(&certificate, foreign.expose()),
                Err(PkiError::KeyMismatch)
            ));
        }
    }

    #[test]
    fn a_self_signed_certificate_is_its_own_issuer() {
        let request = LeafRequest {
            subject: Name::organization("pve"),
            alt_names: vec![AltName::Dns("pve.test".to_owned())],
            usage: Usage::Server,
            key_encipherment: false,
            not_before: NOW,
            lifetime: YEAR,
        };
        let (made, key) = self_signed(&request, KeyKind::EcdsaP256, &mut Seeded(14)).unwrap();
        assert!(made.belongs_to(&key));
        assert_eq!(made.issuer, made.subject);
        assert_eq!((made.not_before, made.not_after), (NOW, NOW.plus(YEAR)));
    }

    #[test]
    fn issued_certificates_name_their_issuer() {
        let issuer = authority(KeyKind::EcdsaP256, Name::organization("kubernetes"));
        let request = LeafRequest {
            subject: Name {
                organizations: vec!["system:masters".to_owned()],
                common_name: Some("admin".to_owned()),
            },
            alt_names: vec![
                AltName::Dns("node".to_owned()),
                AltName::Ip("10.0.0.1".parse().unwrap()),
            ],
            usage: Usage::Client,
            key_encipherment: true,
            not_before: NOW,
            lifetime: YEAR,
        };
        let (leaf, key) = issuer.issue(&request, &mut Seeded(13)).unwrap();
        assert!(leaf.belongs_to(&key));
        assert_eq!(leaf.issuer.to_string(), "O=kubernetes");
        assert_eq!(leaf.subject.to_string(), "O=system:masters, CN=admin");
        assert_eq!(Certificate::from_pem(&leaf.to_pem()), Ok(leaf.clone()));
        // Parsing must terminate without a panic for every damaged input.
        for at in 0..leaf.as_der().len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut broken = leaf.as_der().to_vec();
                broken[at] = byte;
                let _maybe = Certificate::from_der(broken);
            }
        }
    }
}
