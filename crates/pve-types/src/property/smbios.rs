use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Properties;

/// SMBIOS settings of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Smbios {
    /// System UUID in lower case.
    pub uuid: Option<String>,
    /// Texts that the guest can read, such as `serial` and `manufacturer`.
    pub texts: BTreeMap<String, String>,
}

impl Smbios {
    pub fn with_uuid(uuid: &str) -> Self {
        Self { uuid: Some(uuid.to_ascii_lowercase()), ..Self::default() }
    }

    #[must_use]
    pub fn with(mut self, key: &str, text: &str) -> Self {
        self.texts.insert(key.to_owned(), text.to_owned());
        self
    }

    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        let mut properties = Properties::parse(text, None);
        let is_base64 = properties.flag("base64") == Some(true);
        let _flag = properties.remove("base64");
        let uuid = properties.remove("uuid").map(|uuid| uuid.to_ascii_lowercase());
        let decoded = |text: &str| {
            let bytes = STANDARD.decode(text).ok().filter(|_| is_base64);
            bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
        };
        let texts = properties.iter().map(|(key, text)| (key.to_owned(), decoded(text)));
        Self { uuid, texts: texts.collect() }
    }
}

impl fmt::Display for Smbios {
    /// Writes texts as base64, because Proxmox allows only letters and digits in texts that are not encoded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut properties = Properties::default();
        if let Some(uuid) = &self.uuid {
            properties.set("uuid", uuid);
        }
        for (key, text) in &self.texts {
            properties.set("base64", 1);
            properties.set(key, STANDARD.encode(text));
        }
        properties.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_as_base64() {
        let smbios = Smbios::with_uuid("0A1B2C3D-0000-5000-8000-000000000001")
            .with("serial", "ds=nocloud;i=x");
        let text = smbios.to_string();
        assert_eq!(
            text,
            "base64=1,serial=ZHM9bm9jbG91ZDtpPXg=,uuid=0a1b2c3d-0000-5000-8000-000000000001"
        );
        assert_eq!(Smbios::parse(&text), smbios);
        let plain = Smbios::parse("uuid=0A1B,serial=abc");
        assert_eq!((plain.uuid.as_deref(), &*plain.texts["serial"]), (Some("0a1b"), "abc"));
        assert_eq!(Smbios::with_uuid("AB").to_string(), "uuid=ab");
    }
}
