//! Comparison of the endpoint tables with the API schema of Proxmox. The schema is not part of this repository;
//! `$TALMOX_PVE_SCHEMA` is the path of the folder that contains it.
//!
//! The first test compares every parameter with its type and limits. The second test generates random parameters from the
//! schema text. It compares the results of `interpreter`, which does not use the tables, with those of
//! [`verify`](super::verify).

mod compare;
mod format_samples;
mod interpreter;
mod permission;
mod random_parameters;
mod schema_files;

use std::collections::{BTreeMap, BTreeSet};

use talmox_clock::Chance;

use super::tests::folder;
use super::{Raw, endpoints, verify};
use crate::Release;
use schema_files::ApiSchema;

const VARIABLE: &str = "TALMOX_PVE_SCHEMA";
const RELEASES: [Release; 2] = [Release::V8, Release::V9];

/// Intentional differences. Each line contains a difference, ` # `, and the reason.
const EXCEPTIONS: &str = include_str!("../../../tests/schema-exceptions.txt");

#[test]
fn every_parameter_equals_the_schema() {
    let Some(folder) = folder(VARIABLE) else { return };
    let mut differences = BTreeSet::new();
    for release in RELEASES {
        let facts = ApiSchema::load(&folder, release);
        for endpoint in endpoints(release) {
            differences.extend(compare::differences(&facts, endpoint));
        }
    }
    let lines = EXCEPTIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let exceptions: BTreeSet<String> = lines
        .map(|line| {
            let (what, why) = line.split_once(" # ").expect("an exception with a reason");
            assert!(!why.trim().is_empty(), "an exception without a reason: {line}");
            what.trim().to_owned()
        })
        .collect();
    let new: Vec<_> = differences.difference(&exceptions).cloned().collect();
    let gone: Vec<_> = exceptions.difference(&differences).cloned().collect();
    assert!(new.is_empty(), "differences from the schema:\n{}", new.join("\n"));
    assert!(gone.is_empty(), "obsolete exceptions:\n{}", gone.join("\n"));
}

/// Number of random cases per parameter.
const ROUNDS: u64 = 25;

/// Maximum percentage of cases that the schema text does not decide, because it contains only the name of a format.
const MAX_UNDECIDED_PERCENT: u64 = 10;

#[test]
fn random_parameters_get_the_verdict_of_the_schema() {
    let Some(folder) = folder(VARIABLE) else { return };
    let (mut accepted, mut rejected, mut undecided) = (0, 0, 0);
    for release in RELEASES {
        let facts = ApiSchema::load(&folder, release);
        for endpoint in endpoints(release) {
            let Some(method) = facts.method(endpoint) else { continue };
            let name = format!("{release} {} {}", endpoint.method.name(), endpoint.path);
            for parameter in method.properties().keys() {
                for round in 0..ROUNDS {
                    let chance = Chance::new(1).of(&format!("{name} {parameter}"), round);
                    let given = random_parameters::parameters(&facts, &method, parameter, chance);
                    let Some(wanted) = interpreter::rejected(&facts, &method, &given) else {
                        undecided += 1;
                        continue;
                    };
                    let raw: BTreeMap<String, Raw> = given
                        .iter()
                        .map(|(name, value)| (name.clone(), value.clone().into()))
                        .collect();
                    let got: BTreeSet<String> = match verify(endpoint, &raw) {
                        Ok(_) => BTreeSet::new(),
                        Err(error) => error.errors.into_keys().collect(),
                    };
                    assert_eq!(got, wanted, "{name} with {given:#?}");
                    *(if wanted.is_empty() { &mut accepted } else { &mut rejected }) += 1;
                }
            }
        }
    }
    assert!(accepted > 5000 && rejected > 5000, "{accepted} accepted, {rejected} rejected");
    let share = undecided * 100 / (accepted + rejected + undecided);
    assert!(
        share <= MAX_UNDECIDED_PERCENT,
        "{share} % of the cases have no verdict, {undecided} in all"
    );
}
