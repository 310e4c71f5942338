//! VM config: its JSON in API answers, the text of the config file, the digest and checks.

use std::collections::BTreeSet;

use aws_lc_rs::digest;

use serde_json::{Map, Value as Json, json};

use super::drive;
use crate::pve_state::{Config, PendingDelete, Vm};
use crate::schema::{self, ValueKind};
use crate::{ApiError, Release};

const HIDDEN_PASSWORD: &str = "**********";

/// VM config with its pending changes applied.
pub(crate) fn merged(vm: &Vm) -> Config {
    let mut config = vm.config.clone();
    config.retain(|key, _| !vm.pending_delete.contains_key(key));
    config.extend(vm.pending.clone());
    config
}

/// Answer of `GET config`. Numbers are JSON numbers, and passwords are masked.
pub(crate) fn shown(release: Release, config: &Config, digest: &str) -> Json {
    let mut shown = Map::new();
    for (key, value) in config {
        shown.insert(key.clone(), value_shown(release, key, value));
    }
    if config.contains_key("cipassword") {
        shown.insert("cipassword".to_owned(), json!(HIDDEN_PASSWORD));
    }
    shown.insert("digest".to_owned(), json!(digest));
    Json::Object(shown)
}

/// Answer of `GET pending`: every option with its current and pending value.
pub(crate) fn pending_shown(release: Release, vm: &Vm) -> Json {
    let mut entries = vec![];
    let hidden = |key: &str, value: &str, mask: &str| {
        if key == "cipassword" { json!(mask) } else { value_shown(release, key, value) }
    };
    for (key, value) in &vm.config {
        let mut entry = Map::new();
        entry.insert("key".to_owned(), json!(key));
        entry.insert("value".to_owned(), hidden(key, value, HIDDEN_PASSWORD));
        if let Some(pending) = vm.pending.get(key) {
            entry.insert("pending".to_owned(), hidden(key, pending, "********** "));
        }
        if let Some(how) = vm.pending_delete.get(key) {
            entry.insert("delete".to_owned(), json!(delete_code(*how)));
        }
        entries.push(Json::Object(entry));
    }
    entries.push(json!({"key": "digest", "value": digest(vm)}));
    for (key, value) in vm.pending.iter().filter(|(key, _)| !vm.config.contains_key(*key)) {
        entries.push(json!({"key": key, "pending": hidden(key, value, "********** ")}));
    }
    for (key, how) in &vm.pending_delete {
        if !vm.config.contains_key(key) && !vm.pending.contains_key(key) {
            entries.push(json!({"key": key, "delete": delete_code(*how)}));
        }
    }
    Json::Array(entries)
}

fn delete_code(how: PendingDelete) -> u8 {
    match how {
        PendingDelete::Detach => 1,
        PendingDelete::Destroy => 2,
    }
}

/// Value of an option as JSON, with the type of the option.
fn value_shown(release: Release, key: &str, value: &str) -> Json {
    let is_number = matches!(key, "snaptime")
        || schema::vm_option(release, key)
            .is_some_and(|option| matches!(option.kind, ValueKind::Integer | ValueKind::Flag));
    match value.parse::<i64>() {
        Ok(number) if is_number => json!(number),
        _ => json!(value),
    }
}

/// Digest of the config file of a VM.
pub(crate) fn digest(vm: &Vm) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, file_text(vm).as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text of the config file: current section, pending section, and one section per snapshot.
pub(crate) fn file_text(vm: &Vm) -> String {
    let mut text = section(&vm.config);
    if !vm.pending.is_empty() || !vm.pending_delete.is_empty() {
        text.push_str("\n[PENDING]\n");
        let mut pending = vm.pending.clone();
        if !vm.pending_delete.is_empty() {
            let list: Vec<String> = vm
                .pending_delete
                .iter()
                .map(|(key, how)| match how {
                    PendingDelete::Detach => key.clone(),
                    PendingDelete::Destroy => format!("!{key}"),
                })
                .collect();
            pending.insert("delete".to_owned(), list.join(","));
        }
        text.push_str(&section(&pending));
    }
    for (name, snapshot) in &vm.snapshots {
        text.push_str(&format!("\n[{name}]\n{}", section(&snapshot.config)));
    }
    text
}

fn section(config: &Config) -> String {
    let mut text = String::new();
    if let Some(description) = config.get("description") {
        for line in description.split('\n') {
            text.push_str(&format!("#{}\n", escaped(line)));
        }
    }
    for (key, value) in config.iter().filter(|(key, _)| *key != "description") {
        text.push_str(&format!("{key}: {value}\n"));
    }
    text
}

/// Line of a description in which percent signs, colons and control characters are escaped.
fn escaped(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        match c {
            '%' | ':' | '\0'..='\x1f' | '\x7f' => text.push_str(&format!("%{:02X}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

/// Rejects an operation if the config contains a `lock` of another operation.
pub(crate) fn check_lock(vm: &Vm) -> Result<(), ApiError> {
    match vm.lock() {
        Some(lock) => Err(ApiError::failed(format!("VM is locked ({lock})"))),
        None => Ok(()),
    }
}

/// Rejects an operation on a protected VM.
pub(crate) fn check_protection(vm: &Vm, what: &str) -> Result<(), ApiError> {
    if vm.config.get("protection").is_some_and(|value| value == "1") {
        return Err(ApiError::failed(format!("{what} - protection mode enabled")));
    }
    Ok(())
}

/// Rejects a change if the `digest` that the client sent differs from the digest of the current config.
pub(crate) fn check_digest(vm: &Vm, seen: Option<&str>) -> Result<(), ApiError> {
    match seen {
        Some(seen) if !seen.is_empty() && seen != digest(vm) => {
            Err(ApiError::failed("checksum mismatch (file change by other user?)"))
        }
        _ => Ok(()),
    }
}

/// Normalizes a config like a write and read of the config file. The description is trimmed, and dropped if it is empty.
/// `unusedN` entries are dropped if their volume is in use.
pub(crate) fn normalize(config: &mut Config) {
    if let Some(description) = config.get_mut("description") {
        let length = description.trim_end().len();
        description.truncate(length);
        if description.is_empty() {
            config.remove("description");
        }
    }
    normalize_empty(config);
    let used: BTreeSet<String> =
        drive::drives(config).iter().map(|drive| drive.file().to_owned()).collect();
    config.retain(|key, value| !(drive::is_unused(key) && used.contains(value)));
}

/// Replaces an empty value by a blank, as in the config file. An option for which a blank is invalid is dropped.
pub(crate) fn normalize_empty(config: &mut Config) {
    let takes_blank =
        |key: &str| schema::vm_option(Release::V9, key).is_some_and(|option| option.accepts(" "));
    config.retain(|key, value| !value.is_empty() || key == "description" || takes_blank(key));
    for (_, value) in config.iter_mut().filter(|(key, _)| *key != "description") {
        if value.is_empty() {
            " ".clone_into(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(options: &[(&str, &str)]) -> Vm {
        let config = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Vm { node: "pve".to_owned(), config: config.collect(), ..Vm::default() }
    }

    #[test]
    fn config_file_starts_with_escaped_description() {
        let vm = vm(&[("description", "a: 5%\nb"), ("cores", "2"), ("boot", "order=scsi0")]);
        assert_eq!(file_text(&vm), "#a%3A 5%25\n#b\nboot: order=scsi0\ncores: 2\n");
    }

    #[test]
    fn digest_depends_only_on_content() {
        let mut vm = vm(&[("cores", "2")]);
        let before = digest(&vm);
        vm.pending.insert("cores".to_owned(), "4".to_owned());
        assert_ne!(digest(&vm), before);
        vm.pending.clear();
        assert_eq!(digest(&vm), before);
        assert!(check_digest(&vm, Some(&before)).is_ok());
        assert!(check_digest(&vm, Some("abc")).is_err());
        assert!(check_digest(&vm, None).is_ok());
    }
}
