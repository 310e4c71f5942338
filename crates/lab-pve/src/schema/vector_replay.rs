//! Comparison with recorded answers of the real Proxmox API. Parameters that the real API rejected must be rejected with the
//! same text. Parameters that it accepted must pass.
//!
//! `$TALMOX_PVE_VECTORS` is the path of the folder with the recorded answers.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::tests::folder;
use super::{Method, Raw, find, verify};
use crate::Release;

#[test]
fn recorded_parameters_get_the_same_verdict() {
    let Some(folder) = folder("TALMOX_PVE_VECTORS") else { return };
    let mut steps = 0;
    let mut rejected = 0;
    let mut wrong = Vec::new();
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let vectors: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for vector in vectors.as_array().into_iter().flatten() {
            for (release, expectations) in expectations(vector) {
                for (step, expected) in vector["steps"].as_array().unwrap().iter().zip(expectations)
                {
                    steps += 1;
                    rejected += usize::from(is_schema_error(expected));
                    if let Err(difference) = replay(release, step, expected) {
                        wrong.push(format!("{} on {release}: {difference}", vector["id"]));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {steps}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        steps > 1000 && rejected > 100,
        "{steps} steps, {rejected} rejected: is this the folder?"
    );
}

fn expectations(vector: &Value) -> Vec<(Release, &Vec<Value>)> {
    let expect = vector["expect"].as_array().unwrap();
    let mut all = vec![(Release::V9, expect)];
    match vector["also"]["8.4"].as_str() {
        Some("same") => all.push((Release::V8, expect)),
        Some("differs") => all.push((Release::V8, vector["expect_8.4"].as_array().unwrap())),
        _ => {}
    }
    all
}

/// Parameter errors that the handlers of Proxmox report after the schema verification.
const OF_HANDLERS: [&str; 13] = [
    "Only root may use this option.",
    "already exists",
    "and -delete",
    "at the same time",
    "but not both",
    "cannot use 'snapshot' parameter",
    "content type needs to be",
    "does not support vm images",
    "either needs to be set",
    "invalid filename or wrong extension",
    "target is local node.",
    "unknown option '",
    "wrong file extension",
];

/// Whether the schema verification of the real API rejected the recorded request.
fn is_schema_error(expected: &Value) -> bool {
    let errors = expected["errors"].as_object();
    errors.is_some_and(|errors| {
        !errors.values().any(|text| {
            let text = text.as_str().unwrap();
            OF_HANDLERS.iter().any(|known| text.contains(known))
        })
    })
}

fn replay(release: Release, step: &Value, expected: &Value) -> Result<(), String> {
    let method = Method::parse(step["method"].as_str().unwrap()).unwrap();
    let path = step["path"].as_str().unwrap().replace("%2F", "/").replace("%3A", ":");
    let status = expected["status"].as_u64().unwrap();
    let found = find(release, method, &path);
    if found.is_some() == (status == 501) {
        return Err(format!("{} {path} is there: {}", method.name(), found.is_some()));
    }
    let Some((endpoint, parameters)) = found else { return Ok(()) };
    // The recorded answer has no parameter errors, because the caller had no permission.
    if status == 403 {
        return Ok(());
    }
    let mut raw: BTreeMap<String, Raw> =
        parameters.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
    for (name, value) in step["params"].as_object().into_iter().flatten() {
        raw.insert(name.clone(), value.clone().into());
    }
    if let Some(upload) = step.get("upload") {
        raw.entry("filename".to_owned()).or_insert_with(|| upload["filename"].clone().into());
    }
    let got = verify(endpoint, &raw).map(drop).map_err(|error| error.errors);
    let wanted = if is_schema_error(expected) {
        Err(serde_json::from_value(expected["errors"].clone()).unwrap())
    } else {
        Ok(())
    };
    if got == wanted { Ok(()) } else { Err(format!("{got:?}, should be {wanted:?}")) }
}
