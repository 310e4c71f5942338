//! Rules for the dependencies of this workspace: allowed licenses, allowed sources, denied crates, and one version of
//! each crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::Problems;

/// Platforms that talmox supports. Crates for other platforms are not checked.
const TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
];

const LICENSES: &[&str] =
    &["MIT", "Apache-2.0", "BSD-3-Clause", "ISC", "MIT-0", "Unicode-3.0", "Zlib"];

/// Denied crates with the reason.
const DENIED: &[(&str, &str)] = &[
    ("ring", "one crypto provider for all: aws-lc-rs"),
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("serde_yaml", "archived; YAML is read by talmox-yaml"),
];

/// Accepted older versions of a crate that is also used in a newer version, with the crate that needs the older version.
const SECOND_VERSIONS: &[(&str, &str, &str)] = &[
    ("base64", "0.22", "tonic"),
    ("foldhash", "0.1", "prost-build: only in xtask"),
    ("getrandom", "0.3", "ahash under jsonschema: only in tests"),
    ("hashbrown", "0.15", "prost-build: only in xtask"),
    ("syn", "2", "prost, logos and tracing: only while compiling"),
    ("unicode-width", "0.1", "miette under protox: only in xtask"),
];

pub(crate) fn check(root: &Path) -> Problems {
    match packages(root) {
        Ok(packages) => check_rules(&packages),
        Err(problem) => vec![problem],
    }
}

/// Crate from outside the workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// Source of the package. `None` for crates.io.
    source: Option<String>,
}

/// Packages of all targets with all features, including test dependencies. `cargo tree` is used, because `cargo metadata`
/// also lists optional crates that are not built.
fn packages(root: &Path) -> Result<BTreeSet<Package>, String> {
    let mut found = BTreeSet::new();
    for target in TARGETS {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--workspace", "--all-features", "--locked", "--target", target])
            .args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}|{l}|"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot run cargo tree: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(text.lines().filter_map(|line| package(line, root)));
    }
    Ok(found)
}

/// Parses `NAME vVERSION (SOURCE or proc-macro)|LICENSE|`. `None` for a crate of the workspace.
fn package(line: &str, root: &Path) -> Option<Package> {
    let (package, rest) = line.split_once('|')?;
    let (license, _) = rest.split_once('|')?;
    let mut words = package.splitn(3, ' ');
    let (name, version) = (words.next()?, words.next()?);
    let notes = words.next().unwrap_or_default().replace("(proc-macro)", "");
    let source = notes.trim().trim_start_matches('(').trim_end_matches(')').to_owned();
    if Path::new(&source).starts_with(root) {
        return None;
    }
    Some(Package {
        name: name.to_owned(),
        version: version.trim_start_matches('v').to_owned(),
        license: license.to_owned(),
        source: Some(source).filter(|source| !source.is_empty()),
    })
}

fn check_rules(packages: &BTreeSet<Package>) -> Problems {
    let mut problems = vec![];
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Package { name, version, license, source } in packages {
        if let Some((_, why)) = DENIED.iter().find(|(denied, _)| denied == name) {
            problems.push(format!("{name} must not be used: {why}"));
        }
        if let Some(source) = source {
            problems.push(format!("{name} {version} comes from {source}, not from crates.io"));
        }
        if !is_allowed(license) {
            problems.push(format!(
                "{name} {version} has the license {license:?}, which is not allowed"
            ));
        }
        let is_expected = SECOND_VERSIONS.iter().any(|(known, old, _)| {
            known == name && version.strip_prefix(old).is_some_and(|rest| rest.starts_with('.'))
        });
        if !is_expected {
            versions.entry(name).or_default().push(version);
        }
    }
    let doubled = versions.iter().filter(|(_, versions)| versions.len() > 1);
    problems.extend(
        doubled.map(|(name, versions)| {
            format!("{name} has several versions: {}", versions.join(", "))
        }),
    );
    for (name, old, _) in SECOND_VERSIONS {
        let is_there =
            |package: &Package| package.name == *name && package.version.starts_with(old);
        if !packages.iter().any(is_there) {
            problems.push(format!("{name} {old} is no longer used: remove its exception"));
        }
    }
    problems
}

/// Whether allowed licenses satisfy an SPDX expression. `A/B` is an old spelling of `A OR B`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any(&mut words);
    allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> bool {
    let mut allowed = all(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all(words);
    }
    allowed
}

fn all(words: &mut Words<'_>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => {
            let allowed = any(words);
            words.next_if_eq(&")").is_some() && allowed
        }
        Some(license) => {
            // An exception changes the license, so a license with an exception is not allowed.
            let has_exception = words.next_if_eq(&"WITH").is_some();
            let _exception = has_exception.then(|| words.next());
            LICENSES.contains(&license) && !has_exception
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn license_expressions_are_evaluated() {
        for allowed in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Unlicense) AND Unicode-3.0",
            "ISC AND (MIT OR X)",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for denied in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT",
            "MIT)",
            "(GPL-3.0 OR X) AND MIT",
        ] {
            assert!(!is_allowed(denied), "{denied}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR MIT"));
    }

    #[test]
    fn cargo_tree_output_is_parsed() {
        let root = Path::new("/talmox");
        let read = |line| package(line, root);
        let simple = read("aead v0.6.1|MIT OR Apache-2.0|").unwrap();
        assert_eq!((simple.name.as_str(), simple.version.as_str()), ("aead", "0.6.1"));
        assert_eq!((simple.license.as_str(), simple.source), ("MIT OR Apache-2.0", None));
        assert_eq!(read("syn v2.0.1 (proc-macro)|MIT| (*)").unwrap().source, None);
        let git = read("a v1.0.0 (https://example.com/a#1)|MIT|").unwrap();
        assert_eq!(git.source.as_deref(), Some("https://example.com/a#1"));
        assert_eq!(read("talmox-pve v0.1.0 (/talmox/crates/pve)|MIT OR Apache-2.0|"), None);
    }

    #[test]
    fn every_rule_reports_its_violation() {
        let package = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: "MIT".to_owned(),
            source: None,
        };
        let mut packages: BTreeSet<Package> = SECOND_VERSIONS
            .iter()
            .map(|(name, old, _)| package(name, &format!("{old}.1")))
            .collect();
        packages.insert(package("syn", "3.0.0"));
        assert_eq!(check_rules(&packages), Vec::<String>::new());
        packages.insert(package("ring", "0.17.0"));
        packages.insert(package("syn", "4.0.0"));
        packages.insert(Package { license: "GPL-3.0".to_owned(), ..package("left-pad", "1.0.0") });
        packages.insert(Package {
            source: Some("https://example.com/a#1".to_owned()),
            ..package("a", "1.0.0")
        });
        packages.retain(|package| package.name != "base64");
        assert_eq!(
            check_rules(&packages),
            [
                "a 1.0.0 comes from https://example.com/a#1, not from crates.io",
                "left-pad 1.0.0 has the license \"GPL-3.0\", which is not allowed",
                "ring must not be used: one crypto provider for all: aws-lc-rs",
                "syn has several versions: 3.0.0, 4.0.0",
                "base64 0.22 is no longer used: remove its exception",
            ]
        );
    }
}
