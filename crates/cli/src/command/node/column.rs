//! Table columns that Talos defines for a resource type, as in the output of talosctl.
//!
//! A column is a JSONPath of Kubernetes into the spec. Only the forms that Talos uses are supported. A column with
//! another path is empty.

use serde_json::Value as Json;
use talmox_talos_api::client::Resource;
use talmox_yaml::Node;

use super::spec;

/// Table definition of a resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableLayout {
    /// Singular name of the type, for example `MachineStatus`.
    pub(super) display_type: String,
    pub(super) columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) heading: String,
    path: Option<Vec<PathPart>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPart {
    Key(String),
    Index(usize),
    /// All elements, written as `[*]` or `[:]`.
    All,
    /// Elements whose key has this value, written as `[?(@.KEY=="VALUE")]`.
    Where(String, String),
}

impl TableLayout {
    /// Parses the table definition in a resource definition.
    pub(super) fn of(definition: &Resource) -> Option<Self> {
        let spec = spec::json(&definition.tree()?);
        let columns = spec["printColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
        let column = |column: &Json| {
            let path = parse(column["jsonPath"].as_str()?);
            Some(Column { heading: column["name"].as_str()?.to_uppercase(), path })
        };
        Some(Self {
            display_type: spec["displayType"].as_str()?.to_owned(),
            columns: columns.iter().filter_map(column).collect(),
        })
    }
}

impl Column {
    /// Text of the column on one line. Empty if the spec has no value at the path of the column.
    pub(super) fn text(&self, tree: &Node) -> String {
        let Some(path) = &self.path else { return String::new() };
        let root = spec::json(tree);
        let mut found = vec![&root];
        for part in path {
            found = found.into_iter().flat_map(|value| part.select(value)).collect();
        }
        let texts: Vec<String> = found.into_iter().map(printed).collect();
        // Control characters could move the cursor of the terminal.
        texts.join(" ").replace(char::is_control, " ")
    }
}

impl PathPart {
    fn select<'a>(&self, value: &'a Json) -> Vec<&'a Json> {
        match self {
            Self::Key(key) => value.get(key).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::All => value.as_array().into_iter().flatten().collect(),
            Self::Where(key, wanted) => {
                let items = value.as_array().into_iter().flatten();
                items.filter(|item| item[key] == wanted.as_str()).collect()
            }
        }
    }
}

/// Text of a value. Lists and mappings are printed as JSON.
fn printed(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.trim_end().to_owned(),
        other => other.to_string(),
    }
}

/// Parses a path such as `{.status.ready}`, `{.endpoints[*].host}` or `{@}`.
fn parse(path: &str) -> Option<Vec<PathPart>> {
    let mut rest = path.strip_prefix('{')?.strip_suffix('}')?;
    rest = rest.strip_prefix('@').unwrap_or(rest);
    let mut parts = vec![];
    while !rest.is_empty() {
        if let Some(key) = rest.strip_prefix('.') {
            let end = key.find(['.', '[']).unwrap_or(key.len());
            parts.push(PathPart::Key(key[..end].to_owned()).checked()?);
            rest = &key[end..];
            continue;
        }
        let (inner, after) = rest.strip_prefix('[')?.split_once(']')?;
        parts.push(bracket(inner)?);
        rest = after;
    }
    Some(parts)
}

impl PathPart {
    /// Returns `None` for a key with characters of unsupported syntax.
    fn checked(self) -> Option<Self> {
        match &self {
            Self::Key(key) => {
                let is_plain = |c: char| c.is_alphanumeric() || "_-".contains(c);
                (!key.is_empty() && key.chars().all(is_plain)).then_some(self)
            }
            _ => Some(self),
        }
    }
}

fn bracket(inner: &str) -> Option<PathPart> {
    if inner == "*" || inner == ":" {
        return Some(PathPart::All);
    }
    if let Some(condition) = inner.strip_prefix("?(@.") {
        let (key, value) = condition.strip_suffix(')')?.split_once("==")?;
        let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        return Some(PathPart::Where(key.trim().to_owned(), value.to_owned()));
    }
    inner.parse().ok().map(PathPart::Index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, spec: &str) -> String {
        let column = Column { heading: String::new(), path: parse(path) };
        column.text(&talmox_yaml::read_first(spec).unwrap().unwrap())
    }

    #[test]
    fn the_paths_that_talos_uses_are_followed() {
        let spec = "status: {ready: true}\naddresses: [10.0.0.11, 10.0.0.12]\n\
                    endpoints: [{host: a, port: 1}, {host: b, port: 2}]\n\
                    conditions: [{type: Ready, status: 'True'}, {type: Idle, status: 'False'}]\n\
                    pretty_size: 13 GB\nnone: null\nmap: {a: 1}\n";
        for (path, expected) in [
            ("{.status.ready}", "true"),
            ("{.addresses}", r#"["10.0.0.11","10.0.0.12"]"#),
            ("{.addresses[:]}", "10.0.0.11 10.0.0.12"),
            ("{.addresses[1]}", "10.0.0.12"),
            ("{.endpoints[*].host}", "a b"),
            ("{.endpoints[*].port}", "1 2"),
            (r#"{.conditions[?(@.type=="Ready")].status}"#, "True"),
            ("{.pretty_size}", "13 GB"),
            ("{.none}", ""),
            ("{.absent.deeper}", ""),
            ("{.map}", r#"{"a":1}"#),
            ("{range .addresses[*]}{@}{end}", ""),
        ] {
            assert_eq!(text(path, spec), expected, "{path}");
        }
        assert_eq!(text("{@}", "worker\n"), "worker");
    }
}
