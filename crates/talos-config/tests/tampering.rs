//! Changes of a secrets file that are possible without the key: changes that are detected, and changes that are not.
//! SECURITY.md contains the same list.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use talmox_talos_config::age::{AgeError, Identity, Recipient};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::sops::{self, Settings, SopsDocument, SopsError};
use talmox_talos_config::time::UnixTime;

const TEXT: &str = "\
# first
proxmox:
    token: abc
    other: abd
list:
    - one
    - two
number: \"123\"
first_unencrypted: ab
second_unencrypted: cd
";

struct EncryptedFile {
    text: String,
    identity: Identity,
}

impl EncryptedFile {
    fn new(settings: Settings) -> Self {
        let mut randomness = SystemRandomness::new();
        let identity = Identity::generate(&mut randomness);
        let document =
            sops::create(TEXT, &[identity.recipient()], settings, &mut randomness).unwrap();
        let text = document.encrypt(UnixTime::from_seconds(0), &mut randomness).unwrap();
        Self { text, identity }
    }

    fn open(&self, text: &str) -> Result<SopsDocument, SopsError> {
        assert_ne!(text, self.text, "nothing was changed");
        sops::decrypt(text, std::slice::from_ref(&self.identity))
    }

    fn line(&self, start: &str) -> &str {
        let found = self.text.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("no line {start}"))
    }

    /// The text without the line that begins with `start`.
    fn without(&self, start: &str) -> String {
        self.text.replacen(&format!("{}\n", self.line(start)), "", 1)
    }

    /// The text with two lines swapped.
    fn swapped(&self, one: &str, two: &str) -> String {
        let (one, two) = (self.line(one).to_owned(), self.line(two).to_owned());
        self.text.replacen(&one, "\u{0}", 1).replacen(&two, &one, 1).replacen('\u{0}', &two, 1)
    }
}

#[test]
fn every_change_of_a_value_is_detected() {
    let encrypted = EncryptedFile::new(Settings::default());
    let text = &encrypted.text;
    let value = |start: &str| encrypted.line(start).split_once(": ").unwrap().1.to_owned();
    let changes = [
        ("an encrypted value in another's place", {
            text.replacen(&value("token"), &value("other"), 1)
        }),
        ("a clear text in place of an encrypted value", text.replacen(&value("token"), "x", 1)),
        ("an encrypted value without its key", encrypted.without("token")),
        ("another key of an encrypted value", text.replacen("token:", "user:", 1)),
        ("encrypted values in another order", encrypted.swapped("token", "other")),
        ("items of a list in another order", {
            let items: Vec<&str> = text.lines().filter(|line| line.contains("- ENC[")).collect();
            text.replacen(&items.join("\n"), &format!("{}\n{}", items[1], items[0]), 1)
        }),
        ("a value that is not encrypted", text.replacen(": ab", ": xx", 1)),
        ("values that are not encrypted in another order", {
            encrypted.swapped("first_unencrypted", "second_unencrypted")
        }),
        ("one value more that is not encrypted", format!("more_unencrypted: x\n{text}")),
        ("one value less that is not encrypted", encrypted.without("first_unencrypted")),
        ("the time of the last change", text.replacen("1970-01-01", "1971-01-01", 1)),
        ("the MAC", text.replacen("mac: ENC[AES256_GCM,data:", "mac: ENC[AES256_GCM,data:AAAA", 1)),
        ("no MAC", encrypted.without("mac:")),
        ("the rule that says what is encrypted", {
            text.replacen("unencrypted_suffix: _unencrypted", "encrypted_suffix: _unencrypted", 1)
        }),
        (
            "what the MAC covers",
            text.replacen("    version:", "    mac_only_encrypted: true\n    version:", 1),
        ),
        ("a value as a comment", text.replacen("type:str]", "type:comment]", 2)),
    ];
    for (what, changed) in changes {
        assert!(encrypted.open(&changed).is_err(), "{what}");
    }
    let comment = encrypted.line("#ENC").replacen("data:", "data:AAAA", 1);
    assert!(
        encrypted.open(&text.replacen(encrypted.line("#ENC"), &comment, 1)).is_err(),
        "a comment"
    );
}

#[test]
fn undetected_changes_do_not_change_an_encrypted_value() {
    let encrypted = EncryptedFile::new(Settings::default());
    let text = &encrypted.text;
    let other_recipient = Identity::generate(&mut SystemRandomness::new()).recipient().to_string();
    let own = encrypted.identity.recipient().to_string();
    let added = format!("    age:\n        - recipient: {other_recipient}\n          enc: x\n");
    let changes = [
        ("a comment less", encrypted.without("#ENC")),
        ("a comment in clear text more", format!("# more\n{text}")),
        ("a comment in clear text in place of an encrypted one", {
            text.replacen(encrypted.line("#ENC"), "# another", 1)
        }),
        ("a key with an empty value more", format!("empty: \"\"\n{text}")),
        ("a key with null more", format!("nothing: null\n{text}")),
        ("an empty mapping more", format!("nothing: {{}}\n{text}")),
        ("another key of a value that is not encrypted", {
            text.replacen("first_unencrypted", "other_unencrypted", 1)
        }),
        ("the border between two values that are not encrypted", {
            text.replacen(": ab\n", ": a\n", 1).replacen(": cd\n", ": bcd\n", 1)
        }),
        ("the type of a value, if it reads as that type", {
            let line = encrypted.line("number");
            text.replacen(line, &line.replacen("type:str", "type:int", 1), 1)
        }),
        ("one recipient more", text.replacen("    age:\n", &added, 1)),
        ("another name of a recipient", text.replacen(&own, &other_recipient, 1)),
        ("the version of sops", text.replacen("version: 3", "version: 9", 1)),
        ("white space", text.replacen("proxmox:\n", "proxmox:   \n", 1)),
    ];
    for (what, changed) in changes {
        let opened = encrypted.open(&changed).unwrap_or_else(|error| panic!("{what}: {error}"));
        for (path, value) in [("proxmox.token", "abc"), ("list.1", "two"), ("number", "123")] {
            assert_eq!(opened.get_text(path).unwrap().expose(), value, "{what}");
        }
    }
}

#[test]
fn a_mac_over_encrypted_values_does_not_protect_the_others() {
    let encrypted =
        EncryptedFile::new(Settings { mac_only_encrypted: true, ..Settings::default() });
    let changed = encrypted.text.replacen(": ab\n", ": xx\n", 1);
    let opened = encrypted.open(&changed).unwrap();
    assert_eq!(opened.get_text("first_unencrypted").unwrap().expose(), "xx");
    assert!(encrypted.open(&encrypted.without("token")).is_err());
}

/// Recipients are public, so a file does not prove who wrote it.
#[test]
fn another_file_for_the_same_recipient_is_accepted() {
    let encrypted = EncryptedFile::new(Settings::default());
    let mut randomness = SystemRandomness::new();
    let recipients = [encrypted.identity.recipient()];
    let forged =
        sops::create("proxmox: {token: xyz}", &recipients, Settings::default(), &mut randomness);
    let forged = forged.unwrap().encrypt(UnixTime::from_seconds(0), &mut randomness).unwrap();
    let opened = encrypted.open(&forged).unwrap();
    assert_eq!(opened.get_text("proxmox.token").unwrap().expose(), "xyz");
}

#[test]
fn a_recipient_of_low_order_is_an_error() {
    // The point zero has a valid form, but no key belongs to it.
    let zero = "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z";
    let parsed = Recipient::parse(zero);
    assert!(matches!(&parsed, Err(AgeError::LowOrder(_))), "{parsed:?}");
}
