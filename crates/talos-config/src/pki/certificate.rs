//! Parsing of certificates. This module does not verify signatures; TLS does.

use std::fmt;
use std::net::IpAddr;

use super::der::{self, Reader};
use super::{PkiError, PrivateKey, pem};
use crate::time::UnixTime;

const OID_COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const OID_ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const OID_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];

/// Subject of a certificate. Displays as `O=system:masters, CN=admin`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    pub organizations: Vec<String>,
    pub common_name: Option<String>,
}

/// Subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltName {
    Dns(String),
    Ip(IpAddr),
}

/// Parsed certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    pub subject: Name,
    pub issuer: Name,
    pub not_before: UnixTime,
    pub not_after: UnixTime,
    public_key: Vec<u8>,
    /// Encoded subject. It is copied byte for byte as the issuer of other certificates.
    subject_der: Vec<u8>,
    subject_key_id: Option<Vec<u8>>,
}

impl Name {
    pub fn organization(name: impl Into<String>) -> Self {
        Self { organizations: vec![name.into()], common_name: None }
    }

    /// Encodes the name. All organizations are in one set, sorted by their bytes, as in Go.
    pub(super) fn to_der(&self) -> Vec<u8> {
        let attribute = |oid: &[u8], text: &str| {
            der::sequence(&[&der::value(der::OID, oid), &der::string(text)])
        };
        let mut sets = vec![];
        if !self.organizations.is_empty() {
            let own = self.organizations.iter();
            let mut values: Vec<_> = own.map(|name| attribute(OID_ORGANIZATION, name)).collect();
            values.sort();
            sets.extend(der::value(der::SET, &values.concat()));
        }
        if let Some(name) = &self.common_name {
            sets.extend(der::value(der::SET, &attribute(OID_COMMON_NAME, name)));
        }
        der::value(der::SEQUENCE, &sets)
    }

    fn read(mut sets: Reader<'_>) -> Option<Self> {
        let mut name = Self::default();
        while !sets.is_empty() {
            let mut attributes = Reader::new(sets.expect(der::SET)?);
            while !attributes.is_empty() {
                let mut attribute = attributes.sequence()?;
                let oid = attribute.expect(der::OID)?;
                let (_, text) = attribute.any()?;
                let text = String::from_utf8_lossy(text).into_owned();
                match oid {
                    OID_ORGANIZATION => name.organizations.push(text),
                    OID_COMMON_NAME => name.common_name = Some(text),
                    _ => {}
                }
            }
        }
        Some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let organizations = self.organizations.iter().map(|name| format!("O={name}"));
        let common_name = self.common_name.iter().map(|name| format!("CN={name}"));
        let parts: Vec<String> = organizations.chain(common_name).collect();
        f.write_str(&parts.join(", "))
    }
}

impl Certificate {
    pub fn from_pem(text: &str) -> Result<Self, PkiError> {
        let (label, der) = pem::decode(text).ok_or(PkiError::NotPem)?;
        if label != "CERTIFICATE" {
            return Err(PkiError::NotCertificate);
        }
        Self::from_der(der.to_vec()).ok_or(PkiError::NotCertificate)
    }

    /// Parses the DER of a certificate.
    pub fn from_der(bytes: Vec<u8>) -> Option<Self> {
        let mut body = Reader::new(&bytes).sequence()?.sequence()?;
        if body.peek()? == der::context(0, true) {
            body.any()?;
        }
        body.expect(der::INTEGER)?;
        body.expect(der::SEQUENCE)?;
        let issuer = Name::read(body.sequence()?)?;
        let mut validity = body.sequence()?;
        let mut time = || {
            let (tag, content) = validity.any()?;
            der::read_time(tag, content)
        };
        let (not_before, not_after) = (time()?, time()?);
        let subject_der = body.whole()?.to_vec();
        let subject = Name::read(Reader::new(&subject_der).sequence()?)?;
        let public_key = body.whole()?.to_vec();
        let mut subject_key_id = None;
        while !body.is_empty() {
            let (tag, content) = body.any()?;
            if tag == der::context(3, true) {
                subject_key_id = find_key_id(Reader::new(content).sequence()?);
            }
        }
        Some(Self {
            subject,
            issuer,
            not_before,
            not_after,
            public_key,
            subject_der,
            subject_key_id,
            der: bytes,
        })
    }

    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der).to_string()
    }

    pub fn as_der(&self) -> &[u8] {
        &self.der
    }

    /// Whether the certificate belongs to this key.
    pub fn belongs_to(&self, key: &PrivateKey) -> bool {
        self.public_key == key.public_der()
    }

    pub(super) fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    pub(super) fn subject_key_id(&self) -> Option<&[u8]> {
        self.subject_key_id.as_deref()
    }
}

fn find_key_id(mut extensions: Reader<'_>) -> Option<Vec<u8>> {
    while !extensions.is_empty() {
        let mut extension = extensions.sequence()?;
        let is_key_id = extension.expect(der::OID)? == OID_KEY_ID;
        if extension.peek()? == der::BOOLEAN {
            extension.any()?;
        }
        let content = extension.expect(der::OCTET_STRING)?;
        if is_key_id {
            let id = Reader::new(content).expect(der::OCTET_STRING)?;
            return Some(id.to_vec());
        }
    }
    None
}
