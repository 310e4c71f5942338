//! Texts of rejections, without the values that may be secret.
//!
//! The API quotes rejected values, and these may contain secrets. For an immutable pod template, for example, the API quotes
//! the whole template.

use kube::core::Status;
use kube::core::response::StatusCause;
use talmox_talos_config::leaf::is_secret_name;

/// Start of the message about a manifest that does not fit the fields of its kind. The API answers with status 500 in this
/// case.
pub(super) const MISFIT: &str = "failed to create typed patch object";

/// Words in messages of the API that show that an admission webhook or policy rejected the object. The reason may not be in
/// the object itself, and such messages have no common form.
pub(super) const JUDGES: [&str; 2] = ["admission webhook", "AdmissionPolicy"];

/// Maximum length of a value that is shown.
const LONGEST: usize = 64;

/// The fields that do not fit the kind, such as `.spec.replicsa: field not declared in schema`. None if the API
/// rejected the object for another reason.
pub(super) fn misfit(status: &Status) -> Option<String> {
    let text = status.message.strip_prefix(MISFIT)?;
    let text = text.split_once("): ").map_or(text, |(_, fields)| fields);
    // The rejected value may be any text, with any number of lines.
    let text = text.split(", got ").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "errors:");
    Some(lines.collect::<Vec<_>>().join("; "))
}

/// The message of the API, without values that may be secret.
pub(super) fn words(status: &Status) -> String {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    let causes = causes.unwrap_or_default();
    let message = &status.message;
    let is_own =
        message.contains("\" is invalid: ") && !JUDGES.iter().any(|judge| message.contains(judge));
    if status.code != 422 || causes.is_empty() || !is_own {
        return message.clone();
    }
    causes.iter().map(cause_text).collect::<Vec<_>>().join(", ")
}

/// The text of one cause, such as `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
fn cause_text(cause: &StatusCause) -> String {
    let StatusCause { field, message, .. } = cause;
    // For a pod, further lines contain a comparison of all its fields.
    let message = message.lines().next().unwrap_or_default();
    let shown =
        match message.split_once(": ") {
            Some((problem @ ("Invalid value" | "Unsupported value"), rest)) => {
                let (value, detail) = split(rest);
                match detail {
                    _ if is_shown(field, value) => message,
                    Some(detail) => detail,
                    None => problem,
                }
            }
            Some((problem @ ("Duplicate value" | "Not found"), value)) => {
                if is_shown(field, value) { message } else { problem }
            }
            _ => message,
        };
    if field.is_empty() { shown.to_owned() } else { format!("{field}: {shown}") }
}

/// Splits a text into the value and the problem with it. The second part is None if the text does not have this form.
fn split(text: &str) -> (&str, Option<&str>) {
    let found = if is_single(text) {
        match text.strip_prefix('"') {
            Some(quoted) => after(quoted).strip_prefix(": "),
            None => text.split_once(": ").map(|(_, detail)| detail),
        }
    } else {
        let ends = text.rsplit_once("}: ").or_else(|| text.rsplit_once("]: "));
        ends.map(|(_, detail)| detail)
    };
    match found {
        Some(detail) => (&text[..text.len() - detail.len() - 2], Some(detail)),
        None => (text, None),
    }
}

/// The text after the closing quote. Empty if there is no closing quote.
fn after(quoted: &str) -> &str {
    let mut is_escaped = false;
    for (index, letter) in quoted.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return &quoted[index + 1..],
            _ => {}
        }
    }
    ""
}

/// Whether the text starts with a string, a number or a boolean, and not with a list or an object.
fn is_single(text: &str) -> bool {
    let is_start = |first: char| matches!(first, '"' | '-') || first.is_ascii_digit();
    text.starts_with(is_start)
        || ["true", "false", "null"].iter().any(|word| text.starts_with(word))
}

fn is_shown(field: &str, value: &str) -> bool {
    is_single(value) && value.len() <= LONGEST && !is_secret_name(field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, message: &str) -> Status {
        serde_json::from_value(json!({"code": code, "message": message})).unwrap()
    }

    #[test]
    fn a_misfit_is_shown_without_the_value_that_was_found() {
        let shown =
            |fields: &str| misfit(&status(500, &format!("{MISFIT} (a/b; v1, Kind=Pod): {fields}")));
        assert_eq!(
            shown(".spec.x: field not declared in schema").unwrap(),
            ".spec.x: field not declared in schema"
        );
        assert_eq!(
            shown(
                "errors:\n  .a: field not declared in schema\n  .b: field not declared in schema"
            )
            .unwrap(),
            ".a: field not declared in schema; .b: field not declared in schema"
        );
        assert_eq!(
            shown(".data.pin: expected string, got &value{1234}\nhunter2").unwrap(),
            ".data.pin: expected string"
        );
        assert_eq!(misfit(&status(500, "etcdserver: no leader")), None);
    }

    #[test]
    fn values_are_shown_if_they_cannot_be_secret() {
        let said = |field: &str, message: &str| {
            let cause = json!({"field": field, "message": message, "reason": "FieldValueInvalid"});
            let details = serde_json::from_value(json!({"causes": [cause]})).unwrap();
            words(&Status { details, ..status(422, "Job.batch \"a\" is invalid: and so on") })
        };
        for (field, message, expected) in [
            (
                "spec.replicas",
                "Invalid value: -1: must not be negative",
                "spec.replicas: Invalid value: -1: must not be negative",
            ),
            (
                "spec.type",
                "Unsupported value: \"x\": supported values: \"y\"",
                "spec.type: Unsupported value: \"x\": supported values: \"y\"",
            ),
            ("spec.name", "Required value", "spec.name: Required value"),
            (
                "spec.template",
                "Invalid value: core.PodTemplateSpec{Value:\"hunter2: 3\"}: field is immutable",
                "spec.template: field is immutable",
            ),
            (
                "spec.selector",
                "Invalid value: {\"a\":{\"b\":\"c\"}}: field is immutable",
                "spec.selector: field is immutable",
            ),
            (
                "spec.password",
                "Invalid value: \"hunter2\": it is too short",
                "spec.password: it is too short",
            ),
            (
                "spec.password",
                r#"Invalid value: "a\": hunter2": it is too short"#,
                "spec.password: it is too short",
            ),
            ("spec.tokens[1]", "Duplicate value: \"hunter2\"", "spec.tokens[1]: Duplicate value"),
            (
                "spec",
                "Forbidden: not these fields,\n- hunter1\n+ hunter2",
                "spec: Forbidden: not these fields,",
            ),
        ] {
            assert_eq!(said(field, message), expected);
        }
        let long = format!("Invalid value: \"{}\": no", "x".repeat(LONGEST));
        assert_eq!(said("spec.text", &long), "spec.text: no");
    }
}
