//! JSON patches (RFC 6902) with the behaviour of Talos's Go library: a `replace` adds a missing key, and negative
//! indices count from the end.

use talmox_yaml::{Map, Node, Resolved, Value, emit};

use super::{PatchError, json};
use crate::any;
use crate::tags;

#[derive(Clone, Debug)]
pub(super) struct JsonPatch(Vec<Operation>);

#[derive(Clone, Debug)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Node>,
    /// Whether the patch was written in JSON. In JSON, a null value counts as missing.
    is_json: bool,
}

impl JsonPatch {
    /// Parses a list of operations, in JSON or YAML. An empty text is an empty patch.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        let first = talmox_yaml::read_first(source).map_err(|error| error.to_string())?;
        let Some(mut document) = first else {
            return Ok(Self(vec![]));
        };
        if document.is_null() {
            return Ok(Self(vec![]));
        }
        tags::apply(&mut document)?;
        let Some(list) = document.as_seq() else {
            return Err("a JSON patch is a list of operations".to_owned());
        };
        let is_json = json::is_json(&document);
        let operations = list.items.iter().map(|item| match &item.value {
            Value::Map(map) => Operation::read(map, is_json),
            _ if item.is_null() => Operation::read(&Map::default(), is_json),
            _ => Err("an operation of a JSON patch is a mapping".to_owned()),
        });
        Ok(Self(operations.collect::<Result<_, _>>()?))
    }

    pub(super) fn apply(&self, config: &str) -> Result<String, PatchError> {
        let decode = |reason: String| {
            PatchError::Json(format!("failure decoding talos machine config: {reason}"))
        };
        // The YAML 1.1 parser counts the documents. The other parser applies merge keys.
        let count = talmox_yaml::read_nodes(config).map_err(|error| decode(error.to_string()))?;
        if count.len() != 1 {
            return Err(PatchError::MultiDocument);
        }
        let mut documents = talmox_yaml::read(config).map_err(|error| decode(error.to_string()))?;
        let mut document = documents.swap_remove(0);
        tags::apply(&mut document).map_err(decode)?;
        let mut json = json::from_config(&document).map_err(decode)?;
        if json.as_scalar().is_some() && !json.is_null() {
            return Err(PatchError::Json("the config is neither an object nor a list".to_owned()));
        }
        for operation in &self.0 {
            operation.apply(&mut json).map_err(PatchError::Json)?;
        }
        Ok(emit(&json::to_yaml(&json), 2))
    }
}

impl Operation {
    fn read(map: &Map, is_json: bool) -> Result<Self, String> {
        let map = if is_json { json::last_of_each(map) } else { json::unique(map)? };
        let word = |key: &str| {
            let scalar = map.get(key)?.as_scalar()?;
            (scalar.resolve() == Resolved::Text).then(|| scalar.text.clone())
        };
        let value = map
            .get("value")
            .map(|value| if is_json { Ok(value.clone()) } else { json::from_patch(value) });
        Ok(Self {
            kind: word("op").unwrap_or_else(|| "unknown".to_owned()),
            path: word("path"),
            from: word("from"),
            value: value.transpose()?,
            is_json,
        })
    }

    fn apply(&self, document: &mut Node) -> Result<(), String> {
        let value = || self.value.clone().unwrap_or_else(any::null);
        match self.kind.as_str() {
            "add" => {
                let path = self.path()?;
                add(document, path, value(), "add")
            }
            "remove" => {
                let path = self.path()?;
                remove(document, path).map(drop)
            }
            "replace" => self.replace(document),
            "move" => {
                let from = self.from()?;
                let value = remove(document, from)?;
                add(document, self.path()?, value, "move")
            }
            "copy" => {
                let from = self.from()?;
                let value = get(document, from)?.unwrap_or_else(any::null);
                add(document, self.path()?, value, "copy")
            }
            "test" => {
                let path = self.path()?;
                let found =
                    if path.is_empty() { Some(document.clone()) } else { get(document, path)? };
                let found = found.filter(|found| !found.is_null());
                let wanted = self.value.as_ref().filter(|value| !(self.is_json && value.is_null()));
                let is_same = match (&found, wanted) {
                    (None, None) => true,
                    (Some(found), Some(wanted)) => json::is_same(found, wanted),
                    _ => false,
                };
                if is_same {
                    Ok(())
                } else {
                    Err(format!("testing value {path} failed: test failed"))
                }
            }
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn replace(&self, document: &mut Node) -> Result<(), String> {
        let path = self.path()?;
        let value = self.value.clone().unwrap_or_else(any::null);
        if path.is_empty() {
            if value.as_scalar().is_some() {
                return Err("replace operation value must be object or array".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        match &mut container.value {
            Value::Map(map) => json::set(map, &key, value),
            Value::Seq(seq) => {
                let at = index(&key, seq.items.len()).ok_or_else(|| {
                    format!(
                        "replace operation does not apply: doc is missing key: {path}: missing value"
                    )
                })?;
                seq.items[at] = value;
            }
            Value::Scalar(_) => {}
        }
        Ok(())
    }

    fn path(&self) -> Result<&str, String> {
        let missing = || format!("{} operation failed to decode path: missing value", self.kind);
        self.path.as_deref().ok_or_else(missing)
    }

    fn from(&self) -> Result<&str, String> {
        let missing = || format!("{} operation failed to decode from: missing value", self.kind);
        self.from.as_deref().ok_or_else(missing)
    }
}

/// Collection that contains the last segment of a path, and the last segment.
fn find<'a>(document: &'a mut Node, path: &str) -> Option<(&'a mut Node, String)> {
    let mut steps: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let last = steps.pop()?;
    let mut node = document;
    for step in steps {
        node = match &mut node.value {
            Value::Map(map) => {
                let mut entries = map.entries.iter_mut();
                &mut entries.find(|entry| entry.key.as_str() == Some(&step))?.value
            }
            Value::Seq(seq) => {
                let at = index(&step, seq.items.len())?;
                &mut seq.items[at]
            }
            Value::Scalar(_) => return None,
        };
    }
    node.as_scalar().is_none().then_some((node, last))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn index(step: &str, length: usize) -> Option<usize> {
    let at: isize = step.parse().ok()?;
    let at = if at < 0 { at + isize::try_from(length).ok()? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn add(document: &mut Node, path: &str, value: Node, operation: &str) -> Result<(), String> {
    let (container, key) = find(document, path).ok_or_else(|| {
        format!(
            "{operation} operation does not apply: doc is missing path: {path:?}: missing value"
        )
    })?;
    match &mut container.value {
        Value::Map(map) => json::set(map, &key, value),
        Value::Seq(seq) if key == "-" => seq.items.push(value),
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len() + 1).ok_or_else(|| {
                format!(
                    "error in add for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
                )
            })?;
            seq.items.insert(at, value);
        }
        Value::Scalar(_) => {}
    }
    Ok(())
}

fn remove(document: &mut Node, path: &str) -> Result<Node, String> {
    let (container, key) = find(document, path).ok_or_else(|| {
        format!("remove operation does not apply: doc is missing path: {path:?}: missing value")
    })?;
    match &mut container.value {
        Value::Map(map) => {
            let at = map.entries.iter().position(|entry| entry.key.as_str() == Some(&key));
            let at = at.ok_or_else(|| {
                format!(
                    "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
                )
            })?;
            Ok(map.entries.remove(at).value)
        }
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len()).ok_or_else(|| {
                format!(
                    "error in remove for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
                )
            })?;
            Ok(seq.items.remove(at))
        }
        Value::Scalar(_) => Ok(any::null()),
    }
}

/// Value at a path. `None` if a mapping does not have the key. An error if a list does not have the index.
fn get(document: &mut Node, path: &str) -> Result<Option<Node>, String> {
    let missing =
        || format!("operation does not apply: doc is missing path: {path}: missing value");
    let (container, key) = find(document, path).ok_or_else(missing)?;
    match &container.value {
        Value::Map(map) => Ok(map.get(&key).cloned()),
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len()).ok_or_else(missing)?;
            Ok(Some(seq.items[at].clone()))
        }
        Value::Scalar(_) => Ok(None),
    }
}
