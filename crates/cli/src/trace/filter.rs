//! Filter for trace lines, with a level for each area of the program.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;

/// Prefix of the tracing targets of talmox.
pub(super) const PREFIX: &str = "talmox::";

/// Areas with trace lines.
const AREAS: [&str; 5] = ["pve", "talos", "kube", "web", "plan"];

/// Level of each area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter([LevelFilter; AREAS.len()]);

/// Invalid directive of `TALMOX_LOG`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FilterError {
    #[error("`{0}` is not a level")]
    Level(String),
    #[error("`{0}` is neither an area of talmox nor a level")]
    Area(String),
}

/// List of the valid areas and levels, for a hint.
pub(super) fn known() -> String {
    format!("areas are {}; levels are off, info and debug", AREAS.join(", "))
}

impl Filter {
    pub(super) fn off() -> Self {
        Self([LevelFilter::OFF; AREAS.len()])
    }

    /// Filter for the number of `-v` flags.
    pub(super) fn verbose(times: u8) -> Self {
        let level = match times {
            0 => LevelFilter::OFF,
            1 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        };
        Self([level; AREAS.len()])
    }

    /// Applies directives that are separated by commas. A directive is `LEVEL`, `AREA` or `AREA=LEVEL`.
    pub(super) fn with(mut self, directives: &str) -> Result<Self, FilterError> {
        for directive in directives.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (area, level) = match directive.split_once('=') {
                Some((area, name)) => {
                    let level = level(name).ok_or_else(|| FilterError::Level(name.to_owned()))?;
                    (area, level)
                }
                None => match level(directive) {
                    Some(level) => {
                        self.0.fill(level);
                        continue;
                    }
                    None => (directive, LevelFilter::DEBUG),
                },
            };
            let name = area.trim().trim_start_matches(PREFIX);
            let at = AREAS.iter().position(|area| *area == name);
            let at = at.ok_or_else(|| FilterError::Area(area.to_owned()))?;
            self.0[at] = level;
        }
        Ok(self)
    }

    pub(super) fn is_off(&self) -> bool {
        self.0.iter().all(|level| *level == LevelFilter::OFF)
    }

    pub(super) fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let area = metadata.target().strip_prefix(PREFIX);
        let at = AREAS.iter().position(|known| Some(*known) == area);
        at.is_some_and(|at| *metadata.level() <= self.0[at])
    }
}

fn level(name: &str) -> Option<LevelFilter> {
    let name = name.trim().to_ascii_lowercase();
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    if levels.contains(&name.as_str()) { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(filter: &Filter) -> String {
        let levels = AREAS.iter().zip(filter.0).map(|(area, level)| format!("{area}={level}"));
        levels.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn directives_override_flags() {
        for (times, directives, expected) in [
            (0, "", "pve=off talos=off kube=off web=off plan=off"),
            (1, "", "pve=info talos=info kube=info web=info plan=info"),
            (5, "", "pve=debug talos=debug kube=debug web=debug plan=debug"),
            (0, "pve", "pve=debug talos=off kube=off web=off plan=off"),
            (0, "info,talmox::kube=DEBUG", "pve=info talos=info kube=debug web=info plan=info"),
            (2, " talos = off ,", "pve=debug talos=off kube=debug web=debug plan=debug"),
        ] {
            let filter = Filter::verbose(times).with(directives).unwrap();
            assert_eq!(levels(&filter), expected, "{times} {directives}");
        }
        assert!(Filter::off().is_off() && !Filter::verbose(1).is_off());
    }

    #[test]
    fn other_libraries_cannot_be_named() {
        for (directives, expected) in [
            ("h2=trace", FilterError::Area("h2".to_owned())),
            ("hyper", FilterError::Area("hyper".to_owned())),
            ("pve=loud", FilterError::Level("loud".to_owned())),
            ("pve=3", FilterError::Level("3".to_owned())),
        ] {
            assert_eq!(Filter::off().with(directives), Err(expected), "{directives}");
        }
    }
}
