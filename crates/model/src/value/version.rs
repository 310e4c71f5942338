//! Versions of Talos and Kubernetes.

use std::fmt;

use semver::Version;
use serde_json::{Value as Json, json};
use talmox_yaml::Scalar;

use crate::language::Leaf;

macro_rules! version {
    ($(#[doc = $doc:literal])+ $name:ident, $expected:literal) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(Version);

        impl $name {
            pub fn new(major: u64, minor: u64, patch: u64) -> Self {
                Self(Version::new(major, minor, patch))
            }

            pub fn get(&self) -> &Version {
                &self.0
            }

            /// Major and minor version.
            pub fn minor(&self) -> (u64, u64) {
                (self.0.major, self.0.minor)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "v{}", self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let not_one = || format!("`{text}` is not a version");
                parse(text).map(Self).map_err(|problem| problem.unwrap_or_else(not_one))
            }
        }

        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                parse(&scalar.text).map(Self)
            }

            fn schema() -> Json {
                json!({ "type": "string", "pattern": "^v?[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$" })
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    };
}

version! {
    /// Version of Talos.
    TalosVersion, "a Talos version such as `v1.11.2`"
}

version! {
    /// Version of Kubernetes.
    KubernetesVersion, "a Kubernetes version such as `v1.32.1`"
}

fn parse(text: &str) -> Result<Version, Option<String>> {
    let number = text.strip_prefix('v').unwrap_or(text);
    Version::parse(number).map_err(|_| {
        let mut parts = number.split('.');
        let is_short = parts.by_ref().take(2).all(|part| part.parse::<u64>().is_ok());
        (is_short && parts.next().is_none())
            .then(|| format!("the version {text} has no patch release"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_a_patch_release_are_rejected() {
        assert_eq!(parse("v1.11.2").unwrap(), Version::new(1, 11, 2));
        assert_eq!(parse("1.11.2").unwrap(), Version::new(1, 11, 2));
        assert!(parse("v1.14.0-rc.1").unwrap() < Version::new(1, 14, 0));
        assert!(matches!(parse("v1.11"), Err(Some(_))));
        assert!(matches!(parse("1.10"), Err(Some(_))));
        assert_eq!(parse("latest"), Err(None));
    }
}
