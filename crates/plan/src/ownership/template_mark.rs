//! Mark of a template: one line in its notes with the Talos version and the schematic of the template. Users may write other
//! text before and after the mark.

use std::fmt;
use std::str::FromStr;

use talmox_talos_config::contract::Contract;

use super::marker::NoMarker;

/// Start of every mark, with the version of the format.
const HEAD: &str = "talmox-template/1";

/// Number of digits of a schematic id in messages.
const DIGITS: usize = 16;

/// Talos version and schematic of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateMark {
    /// Version of Talos, such as `v1.12.4`.
    pub talos: String,
    /// The schematic ID.
    pub schematic: String,
}

impl fmt::Display for TemplateMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HEAD} talos={} schematic={}", self.talos, self.schematic)
    }
}

impl FromStr for TemplateMark {
    type Err = NoMarker;

    fn from_str(line: &str) -> Result<Self, NoMarker> {
        let rest = line.trim().strip_prefix(HEAD).ok_or(NoMarker)?;
        let field = |key: &str| {
            let words = rest.split_ascii_whitespace();
            let mut fields = words.filter_map(|word| word.split_once('='));
            fields.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        let talos = field("talos").ok_or(NoMarker)?;
        Ok(Self { talos, schematic: field("schematic").ok_or(NoMarker)? })
    }
}

impl TemplateMark {
    /// The mark in the notes of a template. None if the notes have no mark. Also none if they have two marks, because it is
    /// unclear which one is right.
    pub fn find(description: &str) -> Option<Self> {
        let mut marks = description.lines().filter_map(|line| line.parse().ok());
        let first = marks.next()?;
        marks.next().is_none().then_some(first)
    }

    /// The notes of a template: a sentence that explains the mark to users, followed by the mark.
    pub fn description(&self) -> String {
        format!(
            "Talos {}, to be cloned by talmox. It has no config and no identity. \
             The next line says what is in it: keep it.\n\n{self}",
            self.talos
        )
    }

    /// How the template differs from the `desired` mark. None if the two are equal.
    pub(crate) fn difference(&self, desired: &Self) -> Option<String> {
        if self.talos != desired.talos {
            return Some(format!("it has Talos {}, and {} is needed", self.talos, desired.talos));
        }
        (self.schematic != desired.schematic).then(|| {
            let (has, wants) = (short(&self.schematic), short(&desired.schematic));
            format!("it has the schematic {has}, and {wants} is needed")
        })
    }
}

/// The Talos version in the name of a template, such as `talos-v1.12.4-base`.
pub(crate) fn version_in_name(name: &str) -> Option<&str> {
    let version = name.strip_prefix("talos-")?.strip_suffix("-base")?;
    let is_version = version.starts_with('v') && version.parse::<Contract>().is_ok();
    is_version.then_some(version)
}

fn short(schematic: &str) -> String {
    match schematic.get(..DIGITS) {
        Some(start) if start.len() < schematic.len() => format!("{start}…"),
        _ => schematic.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(talos: &str, schematic: &str) -> TemplateMark {
        TemplateMark { talos: talos.to_owned(), schematic: schematic.to_owned() }
    }

    #[test]
    fn people_write_around_the_line() {
        let own =
            mark("v1.12.4", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba");
        let text = format!("# Notes\r\n{}\r\n\r\nask Ann first", own.description());
        assert_eq!(TemplateMark::find(&text), Some(own.clone()));
        assert_eq!(TemplateMark::find(&format!("{text}\n{own}")), None);
        assert_eq!(TemplateMark::find("Talos v1.12.4, made by hand"), None);
        assert_eq!(crate::ownership::Marker::find(&text), None);
    }

    #[test]
    fn differences_are_reported() {
        let own = mark("v1.12.4", "376567988ad370138ad8");
        assert_eq!(own.difference(&own), None);
        let other = own.difference(&mark("v1.13.6", "aa"));
        assert_eq!(other.as_deref(), Some("it has Talos v1.12.4, and v1.13.6 is needed"));
        let other = own.difference(&mark("v1.12.4", "aa"));
        let text = "it has the schematic 376567988ad37013…, and aa is needed";
        assert_eq!(other.as_deref(), Some(text));
    }

    #[test]
    fn names_may_contain_a_version() {
        assert_eq!(version_in_name("talos-v1.12.4-base"), Some("v1.12.4"));
        for other in
            ["talos-base", "talos-golden-base", "talos-vnext-base", "9000", "talos-v1.12.4"]
        {
            assert_eq!(version_in_name(other), None, "{other}");
        }
    }
}
