//! Runs the SOPS vectors in the folder `$TALMOX_SOPS_VECTORS`.
//!
//! The file names define the cases. `enc-X.yaml` must decrypt to `dec-X.yaml`, with one of the `*.key` files; values,
//! key order and comments must be equal. `bad-*.yaml` must be rejected. Decrypted files are also encrypted again and
//! read back. The test prints the name of every failing case.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talmox_talos_config::age::{Identity, parse_identities};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::sops::{self, SopsDocument};
use talmox_talos_config::time::UnixTime;
use talmox_yaml::{Node, Resolved, Value};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a test program")]
fn main() -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "the folder is given by an environment variable")]
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let Some(folder) = variable("TALMOX_SOPS_VECTORS") else {
        eprintln!("SKIPPED: TALMOX_SOPS_VECTORS is not set, no sops vector was run");
        return match variable("CI") {
            Some(value) if value == "true" => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    };
    let results = run(&PathBuf::from(folder));
    for (id, result) in &results {
        if let Err(reason) = result {
            println!("FAILED {id}: {reason}");
        }
    }
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(folder: &Path) -> Vec<(String, Result<(), String>)> {
    let (names, identities) = match discover(folder) {
        Ok(found) => found,
        Err(reason) => return vec![("discovery".to_owned(), Err(reason))],
    };
    let mut results = vec![];
    for name in names {
        let path = folder.join(&name);
        if let Some(case) = name.strip_prefix("enc-") {
            let expected = folder.join(format!("dec-{case}"));
            let result = decrypts_to(&path, &expected, &identities);
            results.push((name, result));
        } else if name.starts_with("bad-") {
            results.push((name, is_rejected(&path, &identities)));
        }
    }
    if results.is_empty() {
        let reason = Err("the folder holds no case".to_owned());
        results.push(("discovery".to_owned(), reason));
    }
    results
}

fn discover(folder: &Path) -> Result<(BTreeSet<String>, Vec<Identity>), String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names: BTreeSet<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let mut identities = vec![];
    for name in names.iter().filter(|name| has_extension(name, "key")) {
        let text = read(&folder.join(name))?;
        identities.extend(parse_identities(&text).map_err(|error| format!("{name}: {error}"))?);
    }
    let is_yaml = |name: &String| has_extension(name, "yaml") || has_extension(name, "yml");
    Ok((names.into_iter().filter(is_yaml).collect(), identities))
}

fn has_extension(name: &str, wanted: &str) -> bool {
    Path::new(name).extension().is_some_and(|own| own == wanted)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn decrypts_to(path: &Path, expected: &Path, identities: &[Identity]) -> Result<(), String> {
    let expected_text = read(expected)?;
    let encrypted = read(path)?;
    let document = sops::decrypt(&encrypted, identities).map_err(|error| error.to_string())?;
    same(&document, &expected_text)?;
    // Each recipient of the file can decrypt it.
    for identity in identities {
        let name = identity.recipient().to_string();
        if document.recipients().any(|recipient| recipient == name) {
            sops::decrypt(&encrypted, std::slice::from_ref(identity))
                .map_err(|error| format!("with {name} alone: {error}"))?;
        }
    }
    let now = UnixTime::from_seconds(1_800_000_000);
    let again = document
        .encrypt(now, &mut SystemRandomness::new())
        .map_err(|error| format!("encrypt again: {error}"))?;
    let back = sops::decrypt(&again, identities).map_err(|error| format!("read back: {error}"))?;
    let values = |document: &SopsDocument| {
        let lines = tree(document.plaintext().expose())?;
        Ok::<_, String>(lines.into_iter().filter(|line| !is_comment(line)).collect())
    };
    let (before, after): (Vec<String>, Vec<String>) = (values(&document)?, values(&back)?);
    if before == after { Ok(()) } else { Err("values differ after encrypting again".to_owned()) }
}

fn is_comment(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(_, rest)| rest.starts_with('#'))
}

fn is_rejected(path: &Path, identities: &[Identity]) -> Result<(), String> {
    match sops::decrypt(&read(path)?, identities) {
        Ok(_) => Err("it was accepted".to_owned()),
        Err(_) => Ok(()),
    }
}

fn same(document: &SopsDocument, expected: &str) -> Result<(), String> {
    let text = document.plaintext();
    let (actual, wanted) = (tree(text.expose())?, tree(expected)?);
    if actual == wanted {
        return Ok(());
    }
    let first = actual.iter().zip(&wanted).find(|(a, b)| a != b);
    Err(match first {
        Some((actual, wanted)) => format!("`{actual}` where `{wanted}` was expected"),
        None => format!("{} lines where {} were expected", actual.len(), wanted.len()),
    })
}

/// The tree as lines with all compared properties: values with their types, order and comments.
fn tree(text: &str) -> Result<Vec<String>, String> {
    let documents = talmox_yaml::read_with_comments(text).map_err(|error| error.to_string())?;
    let mut lines = vec![];
    for document in &documents {
        flatten(document, "", &mut lines);
        lines.push("---".to_owned());
    }
    Ok(lines)
}

fn flatten(node: &Node, path: &str, lines: &mut Vec<String>) {
    match &node.value {
        Value::Map(map) => {
            lines.push(format!("{path} mapping"));
            for entry in &map.entries {
                if let Some(comment) = entry.as_comment() {
                    lines.push(format!("{path} #{comment}"));
                } else {
                    let key = entry.key.as_str().unwrap_or("?");
                    flatten(&entry.value, &format!("{path}.{key}"), lines);
                }
            }
        }
        Value::Seq(seq) => {
            lines.push(format!("{path} list"));
            for item in &seq.items {
                match item.as_comment() {
                    Some(comment) => lines.push(format!("{path} #{comment}")),
                    None => flatten(item, &format!("{path}[]"), lines),
                }
            }
        }
        Value::Scalar(scalar) => lines.push(match scalar.resolve() {
            Resolved::Text => format!("{path} text {:?} {:?}", scalar.text, node.tag),
            value => format!("{path} {value:?}"),
        }),
    }
}
