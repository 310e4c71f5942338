//! The four patch types of the Kubernetes API.

mod apply;
mod fields;
mod json_patch;
mod merge;
mod merge_strategy;
mod strategic;

use serde_json::Value;

use super::failure::Failure;
use super::kind::Kind;
use super::object::type_name;

pub(crate) use apply::{Manager, apply, track};

/// Patch type, from the content type of a PATCH request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) fn parse(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Key of a list item in the notation of server-side apply; `None` if only the position identifies the items of the list.
pub(crate) fn item_key(parent: &str, field: &str, item: &Value) -> Option<String> {
    let merge_strategy::MergeStrategy::Keyed(keys) = merge_strategy::of(parent, field) else {
        return None;
    };
    let parts =
        merge_strategy::key(item, keys).into_iter().map(|(key, value)| format!("{key}={value}"));
    Some(parts.collect::<Vec<_>>().join(","))
}

/// Returns the object after a JSON patch, a merge patch or a strategic merge patch.
pub(crate) fn patched(
    kind: &Kind,
    how: PatchType,
    old: &Value,
    patch: &Value,
) -> Result<Value, Failure> {
    let mut new = old.clone();
    match how {
        PatchType::Json => {
            let operations = patch.as_array().ok_or_else(|| {
                let what = type_name(patch);
                Failure::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
                ))
            })?;
            json_patch::apply(&mut new, operations).ok_or_else(Failure::patch_failed)?;
        }
        PatchType::Merge | PatchType::Strategic if !patch.is_object() => {
            let prefix = if how == PatchType::Merge { "error decoding patch: " } else { "" };
            return Err(Failure::bad_request(format!(
                "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                type_name(patch)
            )));
        }
        PatchType::Strategic if kind.custom.is_none() => strategic::apply(&mut new, patch),
        PatchType::Strategic => {
            return Err(Failure::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        PatchType::Merge | PatchType::Apply => merge::apply(&mut new, patch),
    }
    Ok(new)
}
