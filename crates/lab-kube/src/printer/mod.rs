//! Conversion of objects to the tables that `kubectl get` shows.

mod age;
mod cells;
mod columns;
mod custom;
mod less_common;

use std::time::Duration;

use serde_json::{Value, json};

use super::kind::Kind;
use super::object;

pub(crate) use custom::CustomColumn;

/// Part of an object that is included in its table row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Table of objects. `metadata` is the metadata of the list.
pub(crate) fn table<'o>(
    kind: &Kind,
    version: &str,
    objects: impl Iterator<Item = &'o Value>,
    include: Include,
    metadata: &Value,
    now: Duration,
) -> Value {
    let custom = kind
        .custom
        .as_ref()
        .map(|by_version| by_version.get(version).map_or(&[][..], Vec::as_slice));
    let definitions: Vec<Value> = match custom {
        Some(columns) => custom::definitions(columns),
        None => columns::definitions(&kind.id),
    };
    let rows: Vec<Value> = objects
        .map(|object| {
            let cells = match custom {
                Some(columns) => custom::cells(columns, object, now),
                None => cells::of(&kind.id, object, now),
            };
            let mut row = json!({"cells": cells});
            match include {
                Include::Nothing => {}
                Include::Metadata => {
                    row["object"] = json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": object["metadata"],
                    });
                }
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn age_of(object: &Value, now: Duration) -> String {
    age::since(object::text(object, "/metadata/creationTimestamp"), now)
}
