//! Search for the machine config at boot. The node uses the first source that has a complete config.
//!
//! Sources without a config are skipped. A partial config is in effect until a complete config is applied. A config that cannot
//! be parsed or is invalid ends the search: Talos logs the reason, retries forever, and opens no port in the meantime.

use talmox_talos_config::validate::{Mode, validate_config};
use talmox_talos_config::{Config, Release};

use super::super::config::AppliedConfig;

/// Source of a machine config at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigSource<'a> {
    /// STATE partition, which only an installed node has.
    State,
    /// Config that is embedded in the image, which Talos supports since 1.12.
    Embedded,
    /// Platform, such as a cidata volume.
    Platform(&'a str),
}

/// Result of the search for a machine config.
#[derive(Debug)]
pub(super) enum AcquiredConfig {
    Config(Box<AppliedConfig>),
    /// No complete config was found. The value is the partial config, if there is one.
    Nothing(Option<Box<AppliedConfig>>),
    /// A config was found that the node cannot use. The value is the reason.
    Broken(String),
}

/// Searches the sources for a machine config, in this order.
pub(super) fn acquire(
    places: [(ConfigSource<'_>, Option<String>); 3],
    release: Release,
    mode: Mode,
) -> AcquiredConfig {
    let mut part = None;
    for (source, text) in places {
        let Some(text) = text else { continue };
        let config = match Config::parse(&text, release) {
            Ok(config) => config,
            Err(error) => {
                return AcquiredConfig::Broken(format!("{}: {error}", source.load_failed()));
            }
        };
        let mode = if source == ConfigSource::State { Mode::Cloud } else { mode };
        if let Some(error) = validate_config(&config, mode).error {
            return AcquiredConfig::Broken(format!("{}: {error}", source.validation_failed()));
        }
        let is_whole = config.v1alpha1().is_some();
        let found = Box::new(AppliedConfig::new(text, config));
        if is_whole {
            return AcquiredConfig::Config(found);
        }
        part = Some(found);
    }
    AcquiredConfig::Nothing(part)
}

impl ConfigSource<'_> {
    fn load_failed(self) -> String {
        match self {
            Self::State => "failed to load config from STATE".to_owned(),
            Self::Embedded => "failed to load config from embedded".to_owned(),
            Self::Platform(name) => format!("failed to load config via platform {name}"),
        }
    }

    fn validation_failed(self) -> String {
        match self {
            Self::State => "failed to validate on-disk config".to_owned(),
            Self::Embedded => "failed to validate embedded config".to_owned(),
            Self::Platform(name) => {
                format!("failed to validate config acquired via platform {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use talmox_talos_config::generate::Role;

    use super::*;
    use crate::test_bench::Bench;

    fn found(state: Option<&str>, platform: Option<&str>) -> AcquiredConfig {
        let places = [
            (ConfigSource::State, state.map(str::to_owned)),
            (ConfigSource::Embedded, None),
            (ConfigSource::Platform("nocloud"), platform.map(str::to_owned)),
        ];
        acquire(places, Release::of("v1.11.3").unwrap(), Mode::Cloud)
    }

    #[tokio::test]
    async fn the_first_complete_config_is_used_and_an_invalid_one_ends_the_search() {
        let bench = Bench::new();
        let good = bench.config(&bench.bundle, Role::Worker, |_| {}).text.clone();
        let other = bench.config(&bench.bundle, Role::ControlPlane, |_| {}).text.clone();
        let AcquiredConfig::Config(config) = found(Some(&good), Some(&other)) else {
            panic!("none")
        };
        assert_eq!(config.text, good);
        let part = "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: a\nurl: tcp://10.0.0.1:1/\n";
        assert!(matches!(found(None, Some(part)), AcquiredConfig::Nothing(Some(_))));
        assert!(matches!(found(None, None), AcquiredConfig::Nothing(None)));

        let reason = |found: AcquiredConfig| match found {
            AcquiredConfig::Broken(reason) => reason,
            other => panic!("{other:?}"),
        };
        let unknown = good.replace("    certSANs:", "    colour: red\n    certSANs:");
        let message = reason(found(Some(&unknown), Some(&good)));
        assert!(message.starts_with("failed to load config from STATE: "), "{message}");
        assert!(message.contains("colour"), "{message}");
        let wrong = good.replace("type: worker", "type: wroker");
        let message = reason(found(None, Some(&wrong)));
        let begin = "failed to validate config acquired via platform nocloud: ";
        assert!(message.starts_with(begin), "{message}");
    }
}
