//! Parsing and writing of a secrets bundle as `secrets.yaml` or in JSON form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::{Map, Node, ReadError};

use super::{Bundle, CertificateAndKey, Certs, Cluster, Secrets, TrustdInfo, to_base64};
use crate::format::text as string;
use crate::secret::{REDACTED, SecretText};
use crate::tree::map_of;

/// Reason why a text is not a secrets bundle. The error never contains values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("the secrets bundle is not YAML")]
    Yaml(#[source] ReadError),
    #[error("the secrets bundle is empty")]
    Empty,
    #[error("the secrets bundle lacks `{0}`")]
    Missing(String),
    #[error("`{0}` in the secrets bundle must be a mapping")]
    NotMapping(String),
    #[error("`{0}` in the secrets bundle must be text")]
    NotText(String),
    #[error("`{0}` in the secrets bundle is not base64-encoded text")]
    NotBase64(String),
}

impl Bundle {
    /// Parses the YAML form, or the JSON form with its CamelCase keys.
    pub fn read(text: &str) -> Result<Self, BundleError> {
        let documents = talmox_yaml::read(text).map_err(BundleError::Yaml)?;
        Self::from_node(documents.first().ok_or(BundleError::Empty)?)
    }

    /// Reads a bundle that is part of another document.
    pub fn from_node(node: &Node) -> Result<Self, BundleError> {
        let root = Section::new(node, "")?;
        let cluster = root.section("cluster")?;
        let secrets = root.section("secrets")?;
        let certs = root.section("certs")?;
        Ok(Self {
            cluster: Cluster { id: cluster.text("id")?, secret: cluster.secret("secret")? },
            secrets: Secrets {
                bootstrap_token: secrets.secret("bootstraptoken")?,
                aescbc_encryption_secret: secrets.optional("aescbcencryptionsecret")?,
                secretbox_encryption_secret: secrets.optional("secretboxencryptionsecret")?,
            },
            trustd_info: TrustdInfo { token: root.section("trustdinfo")?.secret("token")? },
            certs: Certs {
                etcd: certs.certificate("etcd")?,
                k8s: certs.certificate("k8s")?,
                k8s_aggregator: certs.certificate("k8saggregator")?,
                k8s_service_account: certs.section("k8sserviceaccount")?.pem("key")?,
                os: certs.certificate("os")?,
            },
        })
    }

    /// Tree of the YAML form, for use in another document.
    pub fn to_node(&self) -> Node {
        self.tree(&YAML_KEYS)
    }

    /// Text of `secrets.yaml`, byte for byte as talosctl writes it.
    pub fn to_yaml(&self) -> SecretText {
        SecretText::new(talmox_yaml::emit(&self.to_node(), 4))
    }

    /// JSON form, for other tools.
    pub fn to_json(&self) -> SecretText {
        let mut text = String::new();
        write_json(&self.tree(&JSON_KEYS), 0, &mut text);
        text.push('\n');
        SecretText::new(text)
    }

    fn tree(&self, keys: &Keys) -> Node {
        let secret = |secret: &SecretText| string(secret.expose());
        let pem = |pem: &str| string(to_base64(pem));
        let certificate = |pair: &CertificateAndKey| {
            map_of([(keys.crt, pem(&pair.crt)), (keys.key, pem(pair.key.expose()))])
        };
        let optional = |key, value: &Option<SecretText>| Some((key, secret(value.as_ref()?)));
        let secrets = [
            Some((keys.bootstrap_token, secret(&self.secrets.bootstrap_token))),
            optional(keys.aescbc, &self.secrets.aescbc_encryption_secret),
            optional(keys.secretbox, &self.secrets.secretbox_encryption_secret),
        ];
        let certs = &self.certs;
        map_of([
            (
                keys.cluster,
                map_of([
                    (keys.id, string(&self.cluster.id)),
                    (keys.secret, secret(&self.cluster.secret)),
                ]),
            ),
            (keys.secrets, map_of(secrets.into_iter().flatten())),
            (keys.trustd_info, map_of([(keys.token, secret(&self.trustd_info.token))])),
            (
                keys.certs,
                map_of([
                    (keys.etcd, certificate(&certs.etcd)),
                    (keys.k8s, certificate(&certs.k8s)),
                    (keys.k8s_aggregator, certificate(&certs.k8s_aggregator)),
                    (
                        keys.k8s_service_account,
                        map_of([(keys.key, pem(certs.k8s_service_account.expose()))]),
                    ),
                    (keys.os, certificate(&certs.os)),
                ]),
            ),
        ])
    }
}

/// Names of the keys in one of the two forms.
struct Keys {
    cluster: &'static str,
    id: &'static str,
    secret: &'static str,
    secrets: &'static str,
    bootstrap_token: &'static str,
    aescbc: &'static str,
    secretbox: &'static str,
    trustd_info: &'static str,
    token: &'static str,
    certs: &'static str,
    etcd: &'static str,
    k8s: &'static str,
    k8s_aggregator: &'static str,
    k8s_service_account: &'static str,
    os: &'static str,
    crt: &'static str,
    key: &'static str,
}

const YAML_KEYS: Keys = Keys {
    cluster: "cluster",
    id: "id",
    secret: "secret",
    secrets: "secrets",
    bootstrap_token: "bootstraptoken",
    aescbc: "aescbcencryptionsecret",
    secretbox: "secretboxencryptionsecret",
    trustd_info: "trustdinfo",
    token: "token",
    certs: "certs",
    etcd: "etcd",
    k8s: "k8s",
    k8s_aggregator: "k8saggregator",
    k8s_service_account: "k8sserviceaccount",
    os: "os",
    crt: "crt",
    key: "key",
};

const JSON_KEYS: Keys = Keys {
    cluster: "Cluster",
    id: "Id",
    secret: "Secret",
    secrets: "Secrets",
    bootstrap_token: "BootstrapToken",
    aescbc: "AESCBCEncryptionSecret",
    secretbox: "SecretboxEncryptionSecret",
    trustd_info: "TrustdInfo",
    token: "Token",
    certs: "Certs",
    etcd: "Etcd",
    k8s: "K8s",
    k8s_aggregator: "K8sAggregator",
    k8s_service_account: "K8sServiceAccount",
    os: "OS",
    crt: "Crt",
    key: "Key",
};

/// Mapping of the bundle, with its path for messages. The case of the keys is ignored.
struct Section<'a> {
    map: &'a Map,
    path: String,
}

impl<'a> Section<'a> {
    fn new(node: &'a Node, path: &str) -> Result<Self, BundleError> {
        let map = node.as_map();
        let map = map.ok_or_else(|| BundleError::NotMapping(path.to_owned()))?;
        Ok(Self { map, path: path.to_owned() })
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn find(&self, key: &str) -> Option<&'a Node> {
        let is_key = |name: &str| name.eq_ignore_ascii_case(key);
        let mut entries = self.map.entries.iter();
        let entry = entries.find(|entry| entry.key.as_str().is_some_and(is_key))?;
        Some(&entry.value).filter(|node| !node.is_null())
    }

    fn section(&self, key: &str) -> Result<Self, BundleError> {
        let path = self.path_of(key);
        let Some(node) = self.find(key) else {
            return Err(BundleError::Missing(path));
        };
        Section::new(node, &path)
    }

    fn text(&self, key: &str) -> Result<String, BundleError> {
        let Some(node) = self.find(key) else {
            return Err(BundleError::Missing(self.path_of(key)));
        };
        let text = node.as_str().map(str::to_owned);
        text.ok_or_else(|| BundleError::NotText(self.path_of(key)))
    }

    fn secret(&self, key: &str) -> Result<SecretText, BundleError> {
        self.text(key).map(SecretText::new)
    }

    fn optional(&self, key: &str) -> Result<Option<SecretText>, BundleError> {
        match self.find(key) {
            None => Ok(None),
            Some(_) => Ok(Some(self.secret(key)?).filter(|text| !text.is_empty())),
        }
    }

    fn pem(&self, key: &str) -> Result<SecretText, BundleError> {
        let text = self.secret(key)?;
        if text.expose() == REDACTED {
            return Ok(text);
        }
        let bytes = STANDARD.decode(text.expose()).ok();
        let pem = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        pem.map(SecretText::new).ok_or_else(|| BundleError::NotBase64(self.path_of(key)))
    }

    fn certificate(&self, key: &str) -> Result<CertificateAndKey, BundleError> {
        let pair = self.section(key)?;
        Ok(CertificateAndKey { crt: pair.pem("crt")?.expose().to_owned(), key: pair.pem("key")? })
    }
}

/// Writes mappings and texts as JSON. A bundle contains no other values.
fn write_json(node: &Node, depth: usize, text: &mut String) {
    let Some(map) = node.as_map() else {
        json_string(node.as_str().unwrap_or_default(), text);
        return;
    };
    text.push('{');
    for (index, entry) in map.entries.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        json_string(entry.key.as_str().unwrap_or_default(), text);
        text.push_str(": ");
        write_json(&entry.value, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push('}');
}

fn json_string(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{KeyKind, PrivateKey};
    use crate::random::Seeded;
    use crate::secrets::generate_with;
    use crate::time::UnixTime;

    fn bundle() -> Bundle {
        let mut randomness = Seeded(31);
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
        generate_with(&key, UnixTime::from_seconds(0), &mut randomness).unwrap()
    }

    #[test]
    fn yaml_and_json_forms_round_trip() {
        let bundle = bundle();
        let (yaml, json) = (bundle.to_yaml(), bundle.to_json());
        assert!(yaml.expose().starts_with("cluster:\n    id: "));
        assert!(json.expose().starts_with("{\n  \"Cluster\": {\n    \"Id\": \""));
        assert_eq!(Bundle::read(yaml.expose()), Ok(bundle.clone()));
        assert_eq!(Bundle::read(json.expose()), Ok(bundle.clone()));
        let wrapped = format!("talos:\n{}", yaml.expose().replace('\n', "\n "));
        let indented = wrapped.replacen("talos:\n", "talos:\n ", 1);
        let documents = talmox_yaml::read(&indented).unwrap();
        let inner = documents[0].as_map().unwrap().get("talos").unwrap();
        assert_eq!(Bundle::from_node(inner), Ok(bundle));
    }

    #[test]
    fn redacted_parts_stay_redacted() {
        let mut bundle = bundle();
        bundle.certs.os.key = SecretText::new(REDACTED);
        let yaml = bundle.to_yaml();
        assert!(yaml.expose().ends_with("        key: '******'\n"));
        assert_eq!(Bundle::read(yaml.expose()), Ok(bundle));
    }

    #[test]
    fn missing_fields_are_named() {
        let yaml = bundle().to_yaml();
        let without = |line: &str| {
            let lines = yaml.expose().lines().filter(|own| !own.contains(line));
            let text: Vec<_> = lines.collect();
            Bundle::read(&text.join("\n")).unwrap_err()
        };
        assert_eq!(
            without("bootstraptoken"),
            BundleError::Missing("secrets.bootstraptoken".to_owned())
        );
        assert_eq!(Bundle::read(""), Err(BundleError::Empty));
        assert_eq!(Bundle::read("cluster: 1"), Err(BundleError::NotMapping("cluster".to_owned())));
        let broken = yaml.expose().replacen("crt: ", "crt: '!", 1).replacen(
            "\n        key",
            "'\n        key",
            1,
        );
        assert_eq!(Bundle::read(&broken), Err(BundleError::NotBase64("certs.etcd.crt".to_owned())));
    }
}
