//! Compares our tables with the API's own schema, which is not ours to carry: `$TALMOX_PVE_SCHEMA`
//! names the folder that has it.
//!
//! First line by line: every parameter with its type and limits. Then by what comes of it: random
//! parameters, made from the schema's text, are judged by `interpreter`, which knows nothing of our
//! tables, and by [`verify`](super::verify).

mod compare;
mod fact;
mod interpreter;
mod permission;
mod random;
mod sample;

use std::collections::{BTreeMap, BTreeSet};

use talmox_clock::Chance;

use super::tests::folder;
use super::{Raw, endpoints, verify};
use crate::Release;
use fact::Facts;

const VARIABLE: &str = "TALMOX_PVE_SCHEMA";
const RELEASES: [Release; 2] = [Release::V8, Release::V9];

/// Where we differ on purpose, one line each: what, ` # `, why.
const EXCEPTIONS: &str = include_str!("../../../tests/schema-exceptions.txt");

#[test]
fn every_parameter_is_the_schemas() {
    let Some(folder) = folder(VARIABLE) else { return };
    let mut differences = BTreeSet::new();
    for release in RELEASES {
        let facts = Facts::load(&folder, release);
        for endpoint in endpoints(release) {
            differences.extend(compare::differences(&facts, endpoint));
        }
    }
    let lines = EXCEPTIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let exceptions: BTreeSet<String> = lines
        .map(|line| {
            let (what, why) = line.split_once(" # ").expect("an exception has its reason");
            assert!(!why.trim().is_empty(), "an exception has its reason: {line}");
            what.trim().to_owned()
        })
        .collect();
    let new: Vec<_> = differences.difference(&exceptions).cloned().collect();
    let gone: Vec<_> = exceptions.difference(&differences).cloned().collect();
    assert!(new.is_empty(), "the schema says otherwise:\n{}", new.join("\n"));
    assert!(gone.is_empty(), "no longer exceptions:\n{}", gone.join("\n"));
}

/// How often each parameter is tried, alone and among others.
const ROUNDS: u64 = 25;

/// The share of cases, in percent, about which the schema's text may say nothing: formats that it only names.
const MOST_UNDECIDED: u64 = 10;

#[test]
fn random_parameters_get_the_schemas_verdict() {
    let Some(folder) = folder(VARIABLE) else { return };
    let (mut accepted, mut refused, mut undecided) = (0, 0, 0);
    for release in RELEASES {
        let facts = Facts::load(&folder, release);
        for endpoint in endpoints(release) {
            let Some(method) = facts.method(endpoint) else { continue };
            let name = format!("{release} {} {}", endpoint.method.name(), endpoint.path);
            for parameter in method.properties().keys() {
                for round in 0..ROUNDS {
                    let chance = Chance::new(1).of(&format!("{name} {parameter}"), round);
                    let given = random::parameters(&facts, &method, parameter, chance);
                    let Some(wanted) = interpreter::refused(&facts, &method, &given) else {
                        undecided += 1;
                        continue;
                    };
                    let raw: BTreeMap<String, Raw> = given
                        .iter()
                        .map(|(name, value)| (name.clone(), value.clone().into()))
                        .collect();
                    let got: BTreeSet<String> = match verify(endpoint, &raw) {
                        Ok(_) => BTreeSet::new(),
                        Err(refusal) => refusal.errors.into_keys().collect(),
                    };
                    assert_eq!(got, wanted, "{name} with {given:#?}");
                    *(if wanted.is_empty() { &mut accepted } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(accepted > 5000 && refused > 5000, "{accepted} accepted, {refused} refused");
    let share = undecided * 100 / (accepted + refused + undecided);
    assert!(share <= MOST_UNDECIDED, "{share} % of the cases have no verdict, {undecided} in all");
}
