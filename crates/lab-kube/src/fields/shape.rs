//! Fields that an object may have, from the table of built-in kinds or from the schema of a CustomResourceDefinition.

use serde_json::Value;

use super::table::{self, Content, TypeFields};
use crate::kind::Kind;
use crate::object::{flag, text};

#[derive(Clone, Copy, Debug)]
pub(super) enum FieldShape<'s> {
    Anything,
    TypeFields(&'static TypeFields),
    ListOf(&'static TypeFields),
    MapOf(&'static TypeFields),
    /// Schema of a complete custom object.
    Custom(&'s Value),
    /// Schema of a part of a custom object.
    Schema(&'s Value),
}

impl<'s> FieldShape<'s> {
    pub(super) fn of(kind: &'s Kind, version: &str) -> Self {
        match (&kind.custom, kind.schemas.get(version)) {
            (None, _) => table::fields(&kind.name).map_or(Self::Anything, Self::TypeFields),
            (Some(_), Some(schema)) => Self::Custom(schema),
            (Some(_), None) => Self::Anything,
        }
    }

    fn named(name: &str, wrap: impl Fn(&'static TypeFields) -> Self) -> Self {
        table::fields(name).map_or(Self::Anything, wrap)
    }

    /// Shape of a field's value; `None` for an unknown field.
    pub(super) fn field(self, key: &str) -> Option<Self> {
        match self {
            Self::Anything | Self::ListOf(_) => Some(Self::Anything),
            Self::MapOf(fields) => Some(Self::TypeFields(fields)),
            Self::TypeFields(fields) => fields.get(key).map(|content| match content {
                Content::Anything => Self::Anything,
                Content::One(name) => Self::named(name, Self::TypeFields),
                Content::List(name) => Self::named(name, Self::ListOf),
                Content::Map(name) => Self::named(name, Self::MapOf),
            }),
            Self::Custom(schema) => of_resource(key).or_else(|| of_schema(schema, key)),
            Self::Schema(schema) if flag(schema, "/x-kubernetes-embedded-resource") => {
                of_resource(key).or_else(|| of_schema(schema, key))
            }
            Self::Schema(schema) => of_schema(schema, key),
        }
    }

    /// Shape of the items of a list.
    pub(super) fn item(self) -> Self {
        match self {
            Self::ListOf(fields) => Self::TypeFields(fields),
            Self::Schema(schema) => schema.get("items").map_or(Self::Anything, Self::Schema),
            _ => Self::Anything,
        }
    }
}

/// Shape of a field that every object has: `apiVersion`, `kind` or `metadata`.
fn of_resource<'s>(key: &str) -> Option<FieldShape<'s>> {
    match key {
        "apiVersion" | "kind" => Some(FieldShape::Anything),
        "metadata" => Some(FieldShape::named("ObjectMeta", FieldShape::TypeFields)),
        _ => None,
    }
}

fn of_schema<'s>(schema: &'s Value, key: &str) -> Option<FieldShape<'s>> {
    if let Some(known) = schema.get("properties").and_then(|all| all.get(key)) {
        return Some(FieldShape::Schema(known));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) | None => {}
        Some(Value::Bool(true)) => return Some(FieldShape::Anything),
        Some(all) => return Some(FieldShape::Schema(all)),
    }
    let is_open =
        flag(schema, "/x-kubernetes-preserve-unknown-fields") || text(schema, "/type") != "object";
    is_open.then_some(FieldShape::Anything)
}
