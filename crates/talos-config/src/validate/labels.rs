//! Validation of labels, annotations and taints of Kubernetes nodes.

use super::View;

const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn check_labels(labels: View<'_>) -> Vec<String> {
    let mut errors = vec![];
    for (key, value) in sorted(labels) {
        errors.extend(check_name(key).err());
        errors.extend(check_value(value).err());
    }
    errors
}

pub(super) fn check_annotations(annotations: View<'_>) -> Vec<String> {
    let mut errors = vec![];
    let mut size = 0;
    for (key, value) in sorted(annotations) {
        errors.extend(check_name(key).err());
        if matches!(
            key,
            "talos.dev/owned-annotations" | "talos.dev/owned-labels" | "talos.dev/owned-taints"
        ) {
            errors.push(format!("annotation {key:?} is reserved"));
        }
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS {
        errors.push(format!("total annotation size exceeds limit of {MAX_ANNOTATIONS} bytes"));
    }
    errors
}

pub(super) fn check_taints(taints: View<'_>) -> Vec<String> {
    let check = |key: &str, taint: &str| -> Result<(), String> {
        check_name(key)?;
        let (value, effect) = match taint.split_once(':') {
            Some((value, effect)) => (Some(value), effect),
            None => (None, taint),
        };
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(format!("invalid taint effect: {effect:?}"));
        }
        value.map_or(Ok(()), check_value)
    };
    sorted(taints).into_iter().filter_map(|(key, taint)| check(key, taint).err()).collect()
}

/// Entries sorted by key.
fn sorted(map: View<'_>) -> Vec<(&str, &str)> {
    let mut entries: Vec<_> = map.entries().map(|(key, value)| (key, value.text())).collect();
    entries.sort_unstable();
    entries
}

fn check_name(name: &str) -> Result<(), String> {
    let parts: Vec<&str> = name.split('/').collect();
    let word = match parts.as_slice() {
        [word] => word,
        ["", _] => return Err(format!("prefix cannot be empty: {name:?}")),
        [prefix, word] => {
            check_domain(prefix)
                .map_err(|reason| format!("prefix {prefix:?} is invalid: {reason}"))?;
            word
        }
        _ => return Err(format!("invalid format: too many slashes: {name:?}")),
    };
    if word.is_empty() {
        return Err(format!("name cannot be empty: {name:?}"));
    }
    if word.len() > 63 {
        return Err(format!("name is too long: {name:?} (limit is 63)"));
    }
    if !is_word(word) {
        return Err(format!("name {word:?} is invalid"));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err(format!("label value length exceeds limit of 63: {value:?}"));
    }
    if !value.is_empty() && !is_word(value) {
        return Err(format!("label value {value:?} is invalid"));
    }
    Ok(())
}

fn check_domain(domain: &str) -> Result<(), String> {
    if domain.len() > 253 {
        return Err(format!("domain name length exceeds limit of 253: {domain:?}"));
    }
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_inner)
            && label.ends_with(is_inner)
            && label.chars().all(|c| is_inner(c) || c == '-')
    };
    if domain.split('.').all(is_label) {
        Ok(())
    } else {
        Err(format!("domain doesn't match required format: {domain:?}"))
    }
}

fn is_word(word: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    word.starts_with(is_edge)
        && word.ends_with(is_edge)
        && word.chars().all(|c| is_edge(c) || matches!(c, '-' | '_' | '.'))
}
