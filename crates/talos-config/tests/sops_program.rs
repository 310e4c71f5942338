//! Exchange of files with the real `sops` program at `$TALMOX_SOPS_BIN`.
//!
//! For each sample and each encryption rule, the program reads the files of this crate, and this crate reads the files
//! of the program. Both must produce the text that the program prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use talmox_talos_config::age::Identity;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::sops::{self, SopsDocument};
use talmox_talos_config::time::UnixTime;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

const SAMPLE: &str = "\
# at the top
# of the file

# and more
proxmox:
    # before the token
    token: user@pve!id=11111111-2222-3333-4444-555555555555 # beside it
    verify_unencrypted: true
    ports: [8006, 22]
talos:
    ids:
        # in a list
        - one
        # in the middle
        - 2
        - true
        - null
        - \"\"
        # at its end
    pem: |
        -----BEGIN X-----
        abc
        -----END X-----
    odd: |2
          indented
        less
    trailing: \"line\\n\\n\"
    tabs: \"a\\tb\"
    float: 1.50
    big: 1234567.5
    exponent: 1e30
    octal: 0644
    hex: 0x1F
    negative: -7
    date: 2026-01-02
    moment: 2026-01-02T03:04:05.5+02:00
    text_date: \"2026-01-02\"
    number_text: \"0644\"
    yes_text: yes
    colon: 'a: b'
    unicode: \"grüße 🔑\"
    binary: !!binary gICA
    empty_map: {}
    empty_list: []
    nothing:
    tilde: ~
    # raw: leave the next one
    commented: value
    after: value
    nested:
        - name: a
          # inside an item
          secret: b
        - - x
          # in a list in a list
          - z
        -
          # first in an item
          name: c
    # at the end of talos
'quoted key': 1
\"y\": why
# at the very end
";

/// Settings of a creation rule, in addition to its recipients.
const RULES: &[&str] = &[
    "",
    "mac_only_encrypted: true",
    "encrypted_suffix: token",
    "encrypted_regex: ^(token|ids|nested|unicode|key1)$",
    "encrypted_regex: ^(token|ids)$, mac_only_encrypted: true",
    "unencrypted_regex: ^(pem|nested)$",
    "encrypted_comment_regex: 'raw:'",
    "unencrypted_comment_regex: 'raw:'",
];

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a test program")]
fn main() -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program is given by an environment variable"
    )]
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let Some(program) = variable("TALMOX_SOPS_BIN") else {
        eprintln!("SKIPPED: TALMOX_SOPS_BIN is not set, nothing was compared with sops");
        return match variable("CI") {
            Some(value) if value == "true" => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    };
    let sops = Sops::new(PathBuf::from(program));
    let mut results = vec![];
    for rule in RULES {
        results.push((format!("exchange {rule}"), sops.exchange(SAMPLE, rule)));
    }
    for seed in 0..40 {
        let text = random_text(seed);
        let result = sops.exchange(&text, RULES[usize::try_from(seed).unwrap_or(0) % 4]);
        let result = result.map_err(|reason| format!("{reason}\n{text}"));
        results.push((format!("random {seed}"), result));
    }
    results.push(("edit".to_owned(), sops.edit()));
    results.push(("rekey".to_owned(), sops.rekey()));
    results.push(("several documents".to_owned(), sops.several_documents()));
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    for (id, result) in &results {
        if let Err(reason) = result {
            println!("FAILED {id}: {reason}");
        }
    }
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Sops {
    program: PathBuf,
    folder: PathBuf,
    one: Identity,
    two: Identity,
}

type Outcome<T> = Result<T, String>;

impl Sops {
    fn new(program: PathBuf) -> Self {
        let mut randomness = SystemRandomness::new();
        Self {
            program,
            folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            one: Identity::generate(&mut randomness),
            two: Identity::generate(&mut randomness),
        }
    }

    fn run(&self, arguments: &[&str], file: &Path, key: &Identity) -> Outcome<String> {
        let output = Command::new(&self.program)
            .args(arguments)
            .arg(file)
            .env("SOPS_AGE_KEY", key.to_text().expose())
            .env("HOME", &self.folder)
            .current_dir(&self.folder)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("sops {arguments:?}: {message}"));
        }
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }

    fn file(&self, name: &str, text: &str) -> Outcome<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok(path)
    }

    fn encrypt(&self, text: &str, rule: &str) -> Outcome<String> {
        let recipients = format!("{},{}", self.one.recipient(), self.two.recipient());
        let config = format!("creation_rules: [{{age: '{recipients}', {rule}}}]\n");
        let config = self.file("rules.yaml", &config)?;
        let config = config.to_string_lossy();
        let plain = self.file("plain.yaml", text)?;
        self.run(&["--config", &config, "encrypt"], &plain, &self.one)
    }

    fn decrypt(&self, text: &str, key: &Identity) -> Outcome<String> {
        self.run(&["decrypt"], &self.file("encrypted.yaml", text)?, key)
    }

    /// Exchanges a file in both directions, and again after both sides have written it.
    fn exchange(&self, text: &str, rule: &str) -> Outcome<()> {
        let sops_text = self.encrypt(text, rule)?;
        let printed = self.decrypt(&sops_text, &self.two)?;
        let document = read_document(&sops_text, &self.one)?;
        // When the program reads its own files, it loses some comments after lists.
        if !printed.contains("#ENC[") {
            equal("this crate reads the file of sops", document.plaintext().expose(), &printed)?;
        }
        let written = write(&document)?;
        // Only the sample is compared: equal values in one list share a nonce, as in the program, so random texts would
        // prove nothing.
        if text == SAMPLE {
            let lost = lost_ciphertexts(&sops_text, &written);
            equal("unchanged, but encrypted again", &lost.join("\n"), "")?;
        }
        let printed_again = self.decrypt(&written, &self.two)?;
        let back = read_document(&written, &self.one)?;
        equal("sops reads the file of this crate", back.plaintext().expose(), &printed_again)?;

        let recipients = [self.one.recipient(), self.two.recipient()];
        let settings = document.settings().clone();
        let made = sops::create(text, &recipients, settings, &mut SystemRandomness::new())
            .map_err(|error| error.to_string())?;
        let made_text = write(&made)?;
        let printed_made = self.decrypt(&made_text, &self.two)?;
        let back = read_document(&made_text, &self.two)?;
        equal("both read the new file", back.plaintext().expose(), &printed_made)?;
        if printed_made.contains("ENC[") {
            return Err(format!("a comment lost its place:\n{printed_made}"));
        }
        Ok(())
    }

    fn edit(&self) -> Outcome<()> {
        let sops_text = self.encrypt(SAMPLE, "")?;
        let mut document = read_document(&sops_text, &self.one)?;
        document.set_text("proxmox.token", &SecretText::new("new: token"));
        document.set_text("values.added", &SecretText::new("007"));
        let written = write(&document)?;
        let printed = self.decrypt(&written, &self.two)?;
        equal("after the edit of this crate", &printed, document.plaintext().expose())?;
        let lost = lost_ciphertexts(&sops_text, &written);
        if lost.len() != 1 {
            return Err(format!("more or less than one value was encrypted again: {lost:?}"));
        }
        let file = self.file("edited.yaml", &written)?;
        let name = file.to_string_lossy().into_owned();
        self.run(&["set", &name, "[\"talos\"][\"float\"]"], Path::new("17"), &self.one)?;
        let edited = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let document = read_document(&edited, &self.two)?;
        let value = document.get_text("talos.float");
        equal("after their edit", value.unwrap_or_default().expose(), "17")
    }

    fn rekey(&self) -> Outcome<()> {
        let sops_text = self.encrypt(SAMPLE, "")?;
        let mut document = read_document(&sops_text, &self.one)?;
        document
            .rekey(&[self.two.recipient()], &mut SystemRandomness::new())
            .map_err(|error| error.to_string())?;
        let written = write(&document)?;
        let printed = self.decrypt(&written, &self.two)?;
        equal("after rekey", &printed, document.plaintext().expose())?;
        if self.decrypt(&written, &self.one).is_ok() || read_document(&written, &self.one).is_ok() {
            return Err("the old key still opens it".to_owned());
        }
        Ok(())
    }

    fn several_documents(&self) -> Outcome<()> {
        let sops_text = self.encrypt("a: 1\n---\n# two\nb: 2\n", "")?;
        let printed = self.decrypt(&sops_text, &self.one)?;
        let document = read_document(&sops_text, &self.one)?;
        equal("this crate reads the file of sops", document.plaintext().expose(), &printed)?;
        let printed = self.decrypt(&write(&document)?, &self.one)?;
        equal("sops reads the file of this crate", document.plaintext().expose(), &printed)
    }
}

fn read_document(text: &str, key: &Identity) -> Outcome<SopsDocument> {
    let document = sops::decrypt(text, std::slice::from_ref(key));
    document.map_err(|error| format!("this crate cannot decrypt: {error}"))
}

fn write(document: &SopsDocument) -> Outcome<String> {
    let text = document.encrypt(NOW, &mut SystemRandomness::new());
    text.map_err(|error| format!("this crate cannot encrypt: {error}"))
}

fn content(text: &str) -> &str {
    text.split("\nsops:\n").next().unwrap_or_default()
}

fn lost_ciphertexts<'a>(before: &'a str, after: &str) -> Vec<&'a str> {
    let parts = content(before).split("ENC[").skip(1);
    let ciphertexts = parts.map(|part| part.split(']').next().unwrap_or_default());
    ciphertexts.filter(|ciphertext| !after.contains(ciphertext)).collect()
}

fn equal(what: &str, left: &str, right: &str) -> Outcome<()> {
    if left == right {
        return Ok(());
    }
    let differing = left.lines().zip(right.lines()).find(|(a, b)| a != b);
    let lengths = (left.len(), right.len());
    Err(format!("{what}: {differing:?} {lengths:?}"))
}

/// Random document in block style, with comments at all allowed positions.
fn random_text(seed: u64) -> String {
    let mut text = String::new();
    let mut random = RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    mapping(&mut random, 0, 0, &mut text);
    text
}

struct RandomNumbers(u64);

impl RandomNumbers {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn scalar(&mut self, choices: u64) -> &'static str {
        const VALUES: [&str; 12] = [
            "word",
            "5",
            "-1.25",
            "true",
            "''",
            "null",
            "'5'",
            "~",
            "a b # c",
            "\"x\\ty\"",
            "[]",
            "{}",
        ];
        VALUES[usize::try_from(self.roll(choices)).unwrap_or(0)]
    }

    fn comment(&mut self, indent: usize, text: &mut String) {
        while self.roll(4) == 0 {
            text.push_str(&format!("{}# note {}\n", " ".repeat(indent), self.roll(100)));
        }
    }
}

fn mapping(random: &mut RandomNumbers, indent: usize, depth: usize, text: &mut String) {
    for key in 0..=random.roll(4) {
        random.comment(indent, text);
        text.push_str(&format!("{}key{key}:", " ".repeat(indent)));
        child(random, indent, depth, text);
    }
    random.comment(indent, text);
}

fn child(random: &mut RandomNumbers, indent: usize, depth: usize, text: &mut String) {
    match random.roll(if depth > 3 { 3 } else { 7 }) {
        6 => {
            let indent = " ".repeat(indent + 4);
            text.push_str(&format!(" |\n{indent}some\n{indent}# text\n"));
        }
        0..=2 => text.push_str(&format!(" {}\n", random.scalar(12))),
        3 | 4 => {
            text.push('\n');
            mapping(random, indent + 4, depth + 1, text);
        }
        _ => {
            text.push('\n');
            for _ in 0..=random.roll(3) {
                random.comment(indent + 4, text);
                text.push_str(&format!("{}- {}\n", " ".repeat(indent + 4), random.scalar(12)));
            }
            random.comment(indent + 4, text);
        }
    }
}
