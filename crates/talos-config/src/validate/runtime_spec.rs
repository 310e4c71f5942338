//! Overrides of the base spec of the container runtime. They must match the OCI runtime specification.
//!
//! This module contains only the parts of the specification that users override.

use talmox_yaml::{Node, Resolved, Value};

use super::{Report, View};
use crate::any::GoType;

/// Type of the value of a key in the spec.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    /// Whole number in the range of a Go type.
    Number(i128, i128),
    Texts,
    TextMap,
    Object(&'static [(&'static str, Self)]),
    Objects(&'static [(&'static str, Self)]),
}

const INT: Shape = Shape::Number(i64::MIN as i128, i64::MAX as i128);
const UINT32: Shape = Shape::Number(0, u32::MAX as i128);
const UINT64: Shape = Shape::Number(0, u64::MAX as i128);

const ROOT: &[(&str, Shape)] = &[
    ("ociVersion", Shape::Text),
    ("process", Shape::Object(PROCESS)),
    ("root", Shape::Object(&[("path", Shape::Text), ("readonly", Shape::Bool)])),
    ("hostname", Shape::Text),
    ("domainname", Shape::Text),
    ("mounts", Shape::Objects(MOUNT)),
    ("hooks", Shape::Object(&[])),
    ("annotations", Shape::TextMap),
    ("linux", Shape::Object(LINUX)),
    ("solaris", Shape::Object(&[])),
    ("windows", Shape::Object(&[])),
    ("vm", Shape::Object(&[])),
    ("zos", Shape::Object(&[])),
    ("freebsd", Shape::Object(&[])),
];

const PROCESS: &[(&str, Shape)] = &[
    ("terminal", Shape::Bool),
    ("consoleSize", Shape::Object(&[])),
    ("user", Shape::Object(&[("uid", UINT32), ("gid", UINT32)])),
    ("args", Shape::Texts),
    ("commandLine", Shape::Text),
    ("env", Shape::Texts),
    ("cwd", Shape::Text),
    ("capabilities", Shape::Object(&[])),
    ("rlimits", Shape::Objects(&[("type", Shape::Text), ("hard", UINT64), ("soft", UINT64)])),
    ("noNewPrivileges", Shape::Bool),
    ("apparmorProfile", Shape::Text),
    ("oomScoreAdj", INT),
    ("selinuxLabel", Shape::Text),
];

const MOUNT: &[(&str, Shape)] = &[
    ("destination", Shape::Text),
    ("type", Shape::Text),
    ("source", Shape::Text),
    ("options", Shape::Texts),
];

const LINUX: &[(&str, Shape)] = &[
    ("sysctl", Shape::TextMap),
    ("resources", Shape::Object(&[])),
    ("cgroupsPath", Shape::Text),
    ("namespaces", Shape::Objects(&[])),
    ("devices", Shape::Objects(&[])),
    ("seccomp", Shape::Object(&[])),
    ("rootfsPropagation", Shape::Text),
    ("maskedPaths", Shape::Texts),
    ("readonlyPaths", Shape::Texts),
    ("mountLabel", Shape::Text),
];

pub(super) fn validate(overrides: View<'_>, report: &mut Report) {
    if let Some(reason) = overrides.node().and_then(not_json) {
        report.error(format!("failed to marshal base runtime spec overrides: json: {reason}"));
        return;
    }
    if let Some((path, found)) = type_mismatch(overrides, ROOT, "") {
        report.error(format!(
            "failed to unmarshal base runtime spec overrides: json: cannot unmarshal {found} into Go struct field Spec.{path}"
        ));
    }
}

/// Kind of the first value that JSON does not support.
fn not_json(node: &Node) -> Option<&'static str> {
    match &node.value {
        Value::Map(map) => map.entries.iter().find_map(|entry| {
            let is_text = GoType::of(&entry.key) == GoType::Text;
            let other_key = "unsupported type: map[interface {}]interface {}";
            if is_text { not_json(&entry.value) } else { Some(other_key) }
        }),
        Value::Seq(seq) => seq.items.iter().find_map(not_json),
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Float(value) if !value.is_finite() => Some("unsupported value"),
            _ => None,
        },
    }
}

/// Value of a whole number. A float without a fraction is a whole number too, because JSON writes both in the same way.
fn whole_number(node: &Node) -> Option<i128> {
    match node.as_scalar()?.resolve() {
        Resolved::Int(value) => Some(value),
        #[expect(clippy::cast_possible_truncation, reason = "no bits are lost")]
        Resolved::Float(value) if value.fract() == 0.0 && value.abs() < 1e21 => Some(value as i128),
        _ => None,
    }
}

/// Path and type of the first value with a wrong type.
fn type_mismatch(
    view: View<'_>,
    shapes: &[(&str, Shape)],
    path: &str,
) -> Option<(String, &'static str)> {
    view.entries().find_map(|(key, value)| {
        // Go's JSON decoder ignores the case of keys.
        let (name, shape) = shapes.iter().find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
        check(value, *shape, &path)
    })
}

fn check(value: View<'_>, shape: Shape, path: &str) -> Option<(String, &'static str)> {
    let found = GoType::of(value.node()?);
    let wanted = match shape {
        Shape::Text => found == GoType::Text,
        Shape::Bool => found == GoType::Bool,
        Shape::Number(min, max) => {
            whole_number(value.node()?).is_some_and(|number| (min..=max).contains(&number))
        }
        Shape::Texts | Shape::Objects(_) => found == GoType::List,
        Shape::TextMap | Shape::Object(_) => found == GoType::Map,
    };
    if !wanted {
        let shown = match found {
            GoType::Text | GoType::Time => "string",
            GoType::Bool => "bool",
            GoType::List => "array",
            GoType::Map => "object",
            _ => "number",
        };
        return Some((path.to_owned(), shown));
    }
    match shape {
        Shape::Texts => value.items().find_map(|item| check(item, Shape::Text, path)),
        Shape::TextMap => value.entries().find_map(|(_, item)| check(item, Shape::Text, path)),
        Shape::Object(shapes) => type_mismatch(value, shapes, path),
        Shape::Objects(shapes) => {
            value.items().find_map(|item| check(item, Shape::Object(shapes), path))
        }
        _ => None,
    }
}
