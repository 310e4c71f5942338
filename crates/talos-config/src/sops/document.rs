//! Decrypted SOPS file: reading, changing and writing it.

use talmox_yaml::{Entry, Map, Node, Value};

use super::cipher::{DataKey, Nonces, Plain, ValueKind};
use super::comments::{TreeState, settled};
use super::crypt::{MacDigest, Normal, Opening, Sealing};
use super::metadata::{AgeKey, Mac, Metadata};
use super::secret_node::{SecretNode, SecretNodes, wipe};
use super::walk::walk;
use super::{METADATA_KEY, Settings, SopsError};
use crate::age::{self, AgeError, Identity, Recipient};
use crate::format::text as string;
use crate::random::Randomness;
use crate::secret::SecretText;
use crate::time::UnixTime;

/// Number of spaces per level of indentation, as in `sops`.
const INDENT: usize = 4;

/// Decrypted content of a SOPS file, with its comments and the data that is needed to encrypt it again.
#[derive(Clone)]
pub struct SopsDocument {
    /// Root mappings. There are several only if the file contains several YAML documents.
    roots: SecretNodes,
    metadata: Metadata,
    data_key: DataKey,
    nonces: Nonces,
}

/// Creates a document from a plain text, which will be encrypted for these recipients.
pub fn create(
    plaintext: &str,
    recipients: &[Recipient],
    settings: Settings,
    randomness: &mut dyn Randomness,
) -> Result<SopsDocument, SopsError> {
    let mut document = SopsDocument {
        roots: read_plain(plaintext)?,
        metadata: Metadata::new(settings),
        data_key: DataKey::generate(randomness),
        nonces: Nonces::default(),
    };
    document.wrap_data_key(recipients, randomness)?;
    Ok(document)
}

/// Decrypts a file with the first identity that matches a recipient, and verifies the MAC of the file.
pub fn decrypt(text: &str, identities: &[Identity]) -> Result<SopsDocument, SopsError> {
    let mut roots = talmox_yaml::read_with_comments(text).map_err(SopsError::Yaml)?;
    let first = roots.first().and_then(Node::as_map);
    let section = first.and_then(|map| map.get(METADATA_KEY));
    let (metadata, mac) = Metadata::read(section.ok_or(SopsError::NotSops)?)?;
    for root in &mut roots {
        if let Value::Map(map) = &mut root.value {
            map.entries.retain(|entry| entry.as_comment().is_some() || !is_metadata(entry));
        }
    }
    let data_key = unwrap_data_key(&metadata, identities)?;
    let mut nonces = Nonces::default();
    let mut opening = Opening {
        data_key: &data_key,
        settings: &metadata.settings,
        nonces: &mut nonces,
        digest: MacDigest::new(&metadata.settings),
    };
    let opened = roots
        .iter()
        .map(|root| walk(&settled(root, TreeState::Sealed), &mut opening))
        .collect::<Result<Vec<_>, _>>()
        .map(SecretNodes)?;
    let computed = opening.digest.finish();
    let expected = data_key.open(&mac.sealed, &mac.last_modified, &mut Nonces::default());
    match expected {
        Ok(expected) if expected.bytes.as_slice() == computed.as_bytes() => {
            Ok(SopsDocument { roots: opened, metadata, data_key, nonces })
        }
        _ => Err(SopsError::BrokenMac),
    }
}

impl SopsDocument {
    /// Root mapping. Comments are among its entries.
    pub fn root(&self) -> &Node {
        &self.roots[0]
    }

    pub fn settings(&self) -> &Settings {
        &self.metadata.settings
    }

    /// Recipients of the file, as the file contains them.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        self.metadata.age.iter().map(|key| key.recipient.as_str())
    }

    /// Value at a path such as `proxmox.token` or `values.hosts.0`, without comments.
    pub fn get(&self, path: &str) -> Option<SecretNode> {
        let mut node = self.root();
        for key in path.split('.') {
            node = match &node.value {
                Value::Map(map) => {
                    let mut own = map.entries.iter().filter(|e| e.as_comment().is_none());
                    &own.find(|entry| entry.key.as_str() == Some(key))?.value
                }
                Value::Seq(seq) => {
                    let mut own = seq.items.iter().filter(|item| item.as_comment().is_none());
                    own.nth(key.parse().ok()?)?
                }
                Value::Scalar(_) => return None,
            };
        }
        Some(SecretNode::new(node.without_comments()))
    }

    /// Text of the scalar at a path.
    pub fn get_text(&self, path: &str) -> Option<SecretText> {
        let node = self.get(path)?;
        let text = node.as_str().filter(|_| !node.is_null())?;
        Some(SecretText::new(text))
    }

    /// Sets the value at a path, and creates missing mappings on the path. A list can only be replaced as a whole.
    pub fn set(&mut self, path: &str, value: Node) {
        let mut node = &mut self.roots[0];
        for key in path.split('.') {
            if node.as_map().is_none() {
                wipe(node);
                node.value = Value::Map(Map::default());
                node.tag = None;
            }
            let Value::Map(map) = &mut node.value else {
                return;
            };
            let is_own =
                |entry: &Entry| entry.as_comment().is_none() && entry.key.as_str() == Some(key);
            let position = map.entries.iter().position(is_own).unwrap_or_else(|| {
                map.entries.push(Entry {
                    key: string(key),
                    value: Node::from(Value::Map(Map::default())),
                });
                map.entries.len() - 1
            });
            node = &mut map.entries[position].value;
        }
        wipe(node);
        *node = value;
    }

    /// Removes an entry of the root mapping.
    pub fn remove(&mut self, key: &str) {
        if let Value::Map(map) = &mut self.roots[0].value {
            let is_other =
                |entry: &Entry| entry.as_comment().is_some() || entry.key.as_str() != Some(key);
            map.entries
                .iter_mut()
                .filter(|entry| !is_other(entry))
                .for_each(|e| wipe(&mut e.value));
            map.entries.retain(is_other);
        }
    }

    /// Sets the value at a path to a text.
    pub fn set_text(&mut self, path: &str, text: &SecretText) {
        self.set(path, string(text.expose()));
    }

    /// Whole content as YAML with comments, as `sops --decrypt` prints it.
    pub fn plaintext(&self) -> SecretText {
        SecretText::new(talmox_yaml::emit_all(self.roots.iter(), INDENT))
    }

    /// Replaces the content by an edited text.
    pub fn replace_plaintext(&mut self, text: &str) -> Result<(), SopsError> {
        self.roots = read_plain(text)?;
        Ok(())
    }

    /// Encrypts the file for its recipients. Unchanged values keep their ciphertext.
    pub fn encrypt(
        &self,
        now: UnixTime,
        randomness: &mut dyn Randomness,
    ) -> Result<String, SopsError> {
        let mut sealing = Sealing {
            data_key: &self.data_key,
            settings: &self.metadata.settings,
            nonces: &self.nonces,
            randomness,
            digest: MacDigest::new(&self.metadata.settings),
        };
        let mut roots = self
            .roots
            .iter()
            .map(|root| walk(&SecretNode::new(settled(root, TreeState::Plain)), &mut sealing))
            .collect::<Result<Vec<_>, _>>()?;
        let computed = sealing.digest.finish();
        let last_modified = now.to_string();
        let plain = Plain::new(ValueKind::Text, computed);
        let sealed = self.data_key.seal(&plain, &last_modified, &self.nonces, randomness);
        let section = self.metadata.write(&Mac { sealed, last_modified });
        for root in &mut roots {
            if let Value::Map(map) = &mut root.value {
                map.entries.push(Entry { key: string(METADATA_KEY), value: section.clone() });
            }
        }
        Ok(talmox_yaml::emit_all(&roots, INDENT))
    }

    /// Sets the recipients of the file. It also generates another data key, so that removed recipients cannot read
    /// later versions.
    pub fn rekey(
        &mut self,
        recipients: &[Recipient],
        randomness: &mut dyn Randomness,
    ) -> Result<(), SopsError> {
        let foreign = self.metadata.foreign_names();
        if !foreign.is_empty() {
            return Err(SopsError::ForeignRecipients(foreign));
        }
        let data_key = std::mem::replace(&mut self.data_key, DataKey::generate(randomness));
        if let Err(error) = self.wrap_data_key(recipients, randomness) {
            self.data_key = data_key;
            return Err(error);
        }
        // The old nonces are useless, because with another key the same nonce produces another ciphertext.
        self.nonces = Nonces::default();
        Ok(())
    }

    fn wrap_data_key(
        &mut self,
        recipients: &[Recipient],
        randomness: &mut dyn Randomness,
    ) -> Result<(), SopsError> {
        if recipients.is_empty() {
            return Err(SopsError::NoRecipients);
        }
        let mut wrapped: Vec<AgeKey> = vec![];
        for recipient in recipients {
            let name = recipient.to_string();
            if wrapped.iter().all(|key| key.recipient != name) {
                let enc = age::encrypt(self.data_key.as_bytes(), &[*recipient], randomness);
                let enc = enc.map_err(|source| SopsError::WrapDataKey { source })?;
                wrapped.push(AgeKey { enc, recipient: name });
            }
        }
        self.metadata.age = wrapped;
        Ok(())
    }
}

impl PartialEq for SopsDocument {
    /// Whether both documents contain the same values and comments.
    fn eq(&self, other: &Self) -> bool {
        self.plaintext() == other.plaintext()
    }
}

impl std::fmt::Debug for SopsDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SopsDocument").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

fn is_metadata(entry: &Entry) -> bool {
    entry.key.as_str() == Some(METADATA_KEY)
}

fn read_plain(text: &str) -> Result<SecretNodes, SopsError> {
    let roots = talmox_yaml::read_with_comments(text).map_err(SopsError::Yaml)?;
    let mut roots = SecretNodes(roots);
    if roots.is_empty() {
        roots.push(Node::from(Value::Map(Map::default())));
    }
    let has_section =
        |root: &Node| root.as_map().is_some_and(|map| map.get(METADATA_KEY).is_some());
    if roots.iter().any(has_section) {
        return Err(SopsError::AlreadySops);
    }
    // `sops` reads the value of a scalar and does not keep its notation.
    let normal: Result<Vec<Node>, SopsError> =
        roots.iter().map(|root| walk(root, &mut Normal)).collect();
    normal.map(SecretNodes)
}

fn unwrap_data_key(metadata: &Metadata, identities: &[Identity]) -> Result<DataKey, SopsError> {
    if metadata.age.is_empty() {
        return Err(SopsError::NoAgeRecipient(metadata.foreign_names()));
    }
    let (mut damaged, mut unusable, mut is_for_others) = (None, None, false);
    for key in &metadata.age {
        let problem = |source| SopsError::DataKey { recipient: key.recipient.clone(), source };
        match age::decrypt(&key.enc, identities) {
            Ok(bytes) => {
                return DataKey::from_bytes(&bytes).ok_or_else(|| {
                    SopsError::BadMetadata("the data key has not 32 bytes".to_owned())
                });
            }
            Err(AgeError::NoMatch) => is_for_others = true,
            Err(source @ AgeError::NoX25519(_)) => unusable = Some(problem(source)),
            Err(source) => damaged = Some(problem(source)),
        }
    }
    let wrong_key = || SopsError::WrongKey {
        identities: identities.len(),
        recipients: metadata.age.iter().map(|k| k.recipient.clone()).collect(),
    };
    // Of several errors, one is reported: a damaged key first, then a missing key, then an unsupported key.
    Err(match (damaged, unusable) {
        (Some(damaged), _) => damaged,
        (None, Some(unusable)) if !is_for_others => unusable,
        _ => wrong_key(),
    })
}

/// Whether a text looks like an encrypted SOPS file.
pub fn is_encrypted(text: &str) -> bool {
    let documents = talmox_yaml::read(text).unwrap_or_default();
    let root = documents.first().and_then(Node::as_map);
    root.is_some_and(|map| map.get(METADATA_KEY).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
    const TEXT: &str = "# why\nproxmox:\n    token: abc\n    # beside\n    hosts:\n        - a\n        - b\nplain_unencrypted: 0644\nempty: \"\"\nnothing: null\n";

    fn keys() -> (Identity, Identity) {
        let mut randomness = Seeded(51);
        let one = Identity::generate(&mut randomness);
        (one, Identity::generate(&mut randomness))
    }

    fn encrypted(text: &str, settings: Settings) -> String {
        let recipients = [keys().0.recipient()];
        let document = create(text, &recipients, settings, &mut Seeded(52)).unwrap();
        document.encrypt(NOW, &mut Seeded(53)).unwrap()
    }

    fn mac_only() -> Settings {
        Settings { mac_only_encrypted: true, ..Settings::default() }
    }

    #[test]
    fn encrypted_files_round_trip() {
        let text = encrypted(TEXT, Settings::default());
        assert!(is_encrypted(&text) && !is_encrypted(TEXT));
        assert!(!text.contains("abc") && !text.contains("why") && text.contains("empty: \"\"\n"));
        let document = decrypt(&text, &[keys().0]).unwrap();
        assert_eq!(document.plaintext().expose(), TEXT.replace("0644", "420"));
        assert_eq!(document.get_text("proxmox.token").unwrap().expose(), "abc");
        assert_eq!(document.get_text("proxmox.hosts.1").unwrap().expose(), "b");
        assert_eq!(document.get("proxmox.hosts").unwrap().as_seq().unwrap().items.len(), 2);
        assert_eq!(document.get_text("nothing"), None);
        assert_eq!(document.get("proxmox.token.x"), None);
        assert!(!format!("{document:?}").contains("abc"));
    }

    #[test]
    fn unchanged_values_keep_their_ciphertext() {
        let text = encrypted(TEXT, Settings::default());
        let mut document = decrypt(&text, &[keys().0]).unwrap();
        document.set_text("proxmox.token", &SecretText::new("new"));
        document.set_text("values.more.deep", &SecretText::new("1"));
        let edited = document.encrypt(NOW, &mut Seeded(54)).unwrap();
        let lost: Vec<&str> = text.lines().filter(|line| !edited.contains(line)).collect();
        let names: Vec<&str> =
            lost.iter().map(|line| line.trim().split(':').next().unwrap()).collect();
        assert_eq!(names, ["token", "mac"]);
        let back = decrypt(&edited, &[keys().0]).unwrap();
        assert_eq!(back.get_text("values.more.deep").unwrap().expose(), "1");
        assert_eq!(back, document);
    }

    #[test]
    fn an_error_for_a_wrong_key_names_the_recipients() {
        let text = encrypted(TEXT, Settings::default());
        let (one, two) = keys();
        let error = decrypt(&text, &[two]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "none of the 1 available age keys can decrypt the file; it is encrypted for {}",
                one.recipient()
            )
        );
        assert!(matches!(decrypt(&text, &[]), Err(SopsError::WrongKey { identities: 0, .. })));
    }

    #[test]
    fn every_change_of_the_file_is_detected() {
        let text = encrypted(TEXT, Settings::default());
        let rejected = |text: &str| decrypt(text, &[keys().0]).unwrap_err();
        assert_eq!(rejected(&text.replace(": 420", ": 421")), SopsError::BrokenMac);
        assert_eq!(
            rejected(&text.replace("empty: \"\"\n", "empty: \"\"\nadded_unencrypted: 1\n")),
            SopsError::BrokenMac
        );
        let not_encrypted = |path: &str| SopsError::NotEncrypted { path: path.to_owned() };
        assert_eq!(rejected(&text.replace("empty: \"\"", "empty: x")), not_encrypted("empty"));
        assert_eq!(rejected(&text.replace("empty: \"\"", "empty: 5")), not_encrypted("empty"));
        let renamed = SopsError::Damaged { path: "proxmox.tokem".to_owned() };
        assert_eq!(rejected(&text.replace("token:", "tokem:")), renamed);
        assert_eq!(
            rejected(&text.replace("lastmodified: \"2027", "lastmodified: \"2028")),
            SopsError::BrokenMac
        );
        assert_eq!(
            rejected(&text.replace("    version", "    mac_only_encrypted: true\n    version")),
            SopsError::BrokenMac
        );
        let comment = text.lines().next().unwrap();
        let broken = comment.replace("data:", "data:AAAA");
        assert!(matches!(rejected(&text.replace(comment, &broken)), SopsError::Damaged { .. }));
        assert_eq!(rejected("a: 1\n"), SopsError::NotSops);
        assert_eq!(rejected(""), SopsError::NotSops);
        let doubled = text.replace("nothing: null", "nothing: null\nnothing: {}");
        assert!(matches!(rejected(&doubled), SopsError::Twice { .. }));
        let other = text.replace("-----BEGIN AGE", "-----BEGIN EGA");
        assert!(matches!(rejected(&other), SopsError::DataKey { source: AgeError::NotAge, .. }));
        assert!(matches!(rejected("a: ["), SopsError::Yaml(_)));
        let without_mac = text.lines().filter(|line| !line.starts_with("    mac:"));
        let without_mac: Vec<_> = without_mac.collect();
        assert!(matches!(rejected(&without_mac.join("\n")), SopsError::BadMetadata(_)));
    }

    #[test]
    fn the_mac_may_omit_unencrypted_values() {
        let text = encrypted(TEXT, mac_only());
        let changed = text.replace(": 420", ": 421");
        let document = decrypt(&changed, &[keys().0]).unwrap();
        assert_eq!(document.get_text("plain_unencrypted").unwrap().expose(), "421");
        let all = text.replace("    mac_only_encrypted: true\n", "");
        assert_eq!(decrypt(&all, &[keys().0]).unwrap_err(), SopsError::BrokenMac);
    }

    #[test]
    fn rekeying_locks_out_the_old_key() {
        let (one, two) = keys();
        let mut document =
            decrypt(&encrypted(TEXT, mac_only()), std::slice::from_ref(&one)).unwrap();
        let same = [two.recipient(), two.recipient()];
        assert_eq!(document.rekey(&[], &mut Seeded(55)), Err(SopsError::NoRecipients));
        document.rekey(&same, &mut Seeded(55)).unwrap();
        assert_eq!(document.recipients().count(), 1);
        let text = document.encrypt(NOW, &mut Seeded(56)).unwrap();
        assert!(matches!(decrypt(&text, &[one]), Err(SopsError::WrongKey { .. })));
        assert_eq!(decrypt(&text, &[two]).unwrap(), document);
    }

    #[test]
    fn invalid_files_are_rejected() {
        let recipients = [keys().0.recipient()];
        let rejected = |text: &str| {
            create(text, &recipients, Settings::default(), &mut Seeded(57)).unwrap_err()
        };
        assert_eq!(rejected("sops: {}"), SopsError::AlreadySops);
        assert!(matches!(rejected("- a"), SopsError::Unsupported { .. }));
        assert!(matches!(rejected("a: {1: x}"), SopsError::Unsupported { .. }));
        assert!(matches!(rejected("a: 18446744073709551615"), SopsError::Unsupported { .. }));
    }

    #[test]
    fn an_empty_file_round_trips() {
        let text = encrypted("", Settings::default());
        assert!(text.starts_with("sops:\n"));
        let mut document = decrypt(&text, &[keys().0]).unwrap();
        document.set_text("a.b", &SecretText::new("c"));
        assert_eq!(document.plaintext().expose(), "a:\n    b: c\n");
    }

    proptest::proptest! {
        #[test]
        fn any_text_round_trips(value in "[ -~\n\t\u{e4}\u{1f511}]{0,60}", comment in "[ -~]{0,20}") {
            let mut document = decrypt(&encrypted(TEXT, Settings::default()), &[keys().0]).unwrap();
            document.set_text("a.b", &SecretText::new(value.as_str()));
            let Value::Map(map) = &mut document.roots[0].value else { panic!("a mapping") };
            map.entries.push(Entry::comment(comment));
            let text = document.encrypt(NOW, &mut Seeded(58)).unwrap();
            let back = decrypt(&text, &[keys().0]).unwrap();
            assert_eq!(back.get_text("a.b").unwrap().expose(), value);
        }

        #[test]
        fn no_changed_byte_gives_other_values(at in 0_usize..2000, byte in 0x20_u8..0x7f) {
            let text = encrypted(TEXT, Settings::default());
            let mut bytes = text.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let changed = String::from_utf8(bytes).unwrap();
            if let Ok(document) = decrypt(&changed, &[keys().0]) {
                let original = decrypt(&text, &[keys().0]).unwrap();
                // A change to `  - token:` turns the mapping into a list. The paths that `sops` binds values to contain
                // no list positions, so the values in the list stay valid.
                let token = |document: &SopsDocument, path: &str| document.get_text(path);
                let found = token(&document, "proxmox.token");
                let found = found.or_else(|| token(&document, "proxmox.0.token"));
                assert_eq!(found, token(&original, "proxmox.token"));
            }
        }
    }
}
