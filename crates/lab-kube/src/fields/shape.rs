//! What may be where in an object: by the table of built-in kinds, or by the schema of a definition.

use serde_json::Value;

use super::table::{self, Content, Fields};
use crate::kind::Kind;
use crate::object::{flag, text};

#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'s> {
    Anything,
    Fields(&'static Fields),
    ListOf(&'static Fields),
    MapOf(&'static Fields),
    /// A whole custom object.
    Custom(&'s Value),
    /// A part of one.
    Schema(&'s Value),
}

impl<'s> Shape<'s> {
    pub(super) fn of(kind: &'s Kind, version: &str) -> Self {
        match (&kind.custom, kind.schemas.get(version)) {
            (None, _) => table::fields(&kind.name).map_or(Self::Anything, Self::Fields),
            (Some(_), Some(schema)) => Self::Custom(schema),
            (Some(_), None) => Self::Anything,
        }
    }

    fn named(name: &str, wrap: impl Fn(&'static Fields) -> Self) -> Self {
        table::fields(name).map_or(Self::Anything, wrap)
    }

    /// What a field may hold; none if there is no such field.
    pub(super) fn field(self, key: &str) -> Option<Self> {
        match self {
            Self::Anything | Self::ListOf(_) => Some(Self::Anything),
            Self::MapOf(fields) => Some(Self::Fields(fields)),
            Self::Fields(fields) => fields.get(key).map(|content| match content {
                Content::Anything => Self::Anything,
                Content::One(name) => Self::named(name, Self::Fields),
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

    /// What an item of a list may hold.
    pub(super) fn item(self) -> Self {
        match self {
            Self::ListOf(fields) => Self::Fields(fields),
            Self::Schema(schema) => schema.get("items").map_or(Self::Anything, Self::Schema),
            _ => Self::Anything,
        }
    }
}

/// What every object has.
fn of_resource<'s>(key: &str) -> Option<Shape<'s>> {
    match key {
        "apiVersion" | "kind" => Some(Shape::Anything),
        "metadata" => Some(Shape::named("ObjectMeta", Shape::Fields)),
        _ => None,
    }
}

fn of_schema<'s>(schema: &'s Value, key: &str) -> Option<Shape<'s>> {
    if let Some(known) = schema.get("properties").and_then(|all| all.get(key)) {
        return Some(Shape::Schema(known));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) | None => {}
        Some(Value::Bool(true)) => return Some(Shape::Anything),
        Some(all) => return Some(Shape::Schema(all)),
    }
    let is_open =
        flag(schema, "/x-kubernetes-preserve-unknown-fields") || text(schema, "/type") != "object";
    is_open.then_some(Shape::Anything)
}
