//! Where a machine's config comes from at its boot: the first place that has a whole one.
//!
//! A place that has none is passed over; what has only a part of one, is in effect until there is more. One whose config cannot be read or is
//! not valid ends the search: Talos says why, tries again and again, and opens no port meanwhile.

use talmox_talos_config::validate::{Mode, validate_config};
use talmox_talos_config::{Config, Release};

use super::super::config::Applied;

/// A place that may have a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// The partition STATE: whoever has it is installed.
    State,
    /// In the image itself, from 1.12 on.
    Embedded,
    /// The drive or the like that the platform looks at.
    Platform(&'a str),
}

/// What was found.
#[derive(Debug)]
pub(super) enum Acquired {
    Config(Box<Applied>),
    /// No whole one, but maybe documents for the time until there is.
    Nothing(Option<Box<Applied>>),
    /// One that the machine cannot run with, and why.
    Broken(String),
}

/// Looks at the places in their order.
pub(super) fn acquire(
    places: [(Source<'_>, Option<String>); 3],
    release: Release,
    mode: Mode,
) -> Acquired {
    let mut part = None;
    for (source, text) in places {
        let Some(text) = text else { continue };
        let config = match Config::parse(&text, release) {
            Ok(config) => config,
            Err(error) => return Acquired::Broken(format!("{}: {error}", source.load_failed())),
        };
        let mode = if source == Source::State { Mode::Cloud } else { mode };
        if let Some(error) = validate_config(&config, mode).error {
            return Acquired::Broken(format!("{}: {error}", source.validation_failed()));
        }
        let is_whole = config.v1alpha1().is_some();
        let found = Box::new(Applied::new(text, config));
        if is_whole {
            return Acquired::Config(found);
        }
        part = Some(found);
    }
    Acquired::Nothing(part)
}

impl Source<'_> {
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
    use crate::bench::Bench;

    fn found(state: Option<&str>, platform: Option<&str>) -> Acquired {
        let places = [
            (Source::State, state.map(str::to_owned)),
            (Source::Embedded, None),
            (Source::Platform("nocloud"), platform.map(str::to_owned)),
        ];
        acquire(places, Release::of("v1.11.3").unwrap(), Mode::Cloud)
    }

    #[tokio::test]
    async fn the_first_whole_config_is_taken_and_a_broken_one_ends_the_search() {
        let bench = Bench::new();
        let good = bench.config(&bench.bundle, Role::Worker, |_| {}).text.clone();
        let other = bench.config(&bench.bundle, Role::ControlPlane, |_| {}).text.clone();
        let Acquired::Config(config) = found(Some(&good), Some(&other)) else { panic!("none") };
        assert_eq!(config.text, good);
        let part = "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: a\nurl: tcp://10.0.0.1:1/\n";
        assert!(matches!(found(None, Some(part)), Acquired::Nothing(Some(_))));
        assert!(matches!(found(None, None), Acquired::Nothing(None)));

        let reason = |found: Acquired| match found {
            Acquired::Broken(reason) => reason,
            other => panic!("{other:?}"),
        };
        let unknown = good.replace("    certSANs:", "    colour: red\n    certSANs:");
        let told = reason(found(Some(&unknown), Some(&good)));
        assert!(told.starts_with("failed to load config from STATE: "), "{told}");
        assert!(told.contains("colour"), "{told}");
        let wrong = good.replace("type: worker", "type: wroker");
        let told = reason(found(None, Some(&wrong)));
        let begin = "failed to validate config acquired via platform nocloud: ";
        assert!(told.starts_with(begin), "{told}");
    }
}
