//! What the API refuses, whether that is its last word, and how much of it may be told.
//!
//! The words of the API quote what it refuses, and that may hold a secret: of an immutable template the whole
//! of it, with all its settings.

use kube::core::Status;
use kube::core::response::StatusCause;
use talmox_talos_config::leaf::is_telling;

use super::KubeError;
use super::manifest::Manifest;

/// How the API begins where a manifest does not fit the fields of its kind. It then calls that an error of its own.
const MISFIT: &str = "failed to create typed patch object";

/// Who else may refuse something: these know more than the object itself, and word it in their own way.
const JUDGES: [&str; 2] = ["admission webhook", "AdmissionPolicy"];

/// Said of ports and addresses that another object has, for now.
const TAKEN: &str = "already allocated";

/// Longer values are not shown.
const LONGEST: usize = 64;

/// An object that the API does not take as its manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `Deployment shop/till`.
    pub object: String,
    /// Where its manifest was read.
    pub place: String,
    /// In the words of the API.
    pub why: String,
    /// Whether neither time nor other objects can change that.
    pub is_final: bool,
}

impl Refusal {
    /// Nothing where the API would take it, but for what may pass by itself.
    pub(super) fn of(manifest: &Manifest, error: &KubeError) -> Option<Self> {
        let is_final = match error {
            KubeError::Misfit { .. } => manifest.is_built_in(),
            KubeError::Refused { status, .. } => {
                let says = |words: &str| status.message.contains(words);
                let is_about_others = says(TAKEN) || JUDGES.iter().any(|judge| says(judge));
                match status.code {
                    _ if says("does not support dry run") => return None,
                    400 | 413 | 422 => manifest.is_built_in() && !is_about_others,
                    // We may do everything: it is about quotas, policies, classes…
                    403 => false,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Self {
            object: manifest.to_string(),
            place: manifest.place.clone(),
            why: error.reason(),
            is_final,
        })
    }
}

/// What does not fit, if that is what the API says: `.spec.replicsa: field not declared in schema`.
pub(super) fn misfit(status: &Status) -> Option<String> {
    let text = status.message.strip_prefix(MISFIT)?;
    let text = text.split_once("): ").map_or(text, |(_, fields)| fields);
    // What was found in place of what was expected may be anything, and have any number of lines.
    let text = text.split(", got ").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "errors:");
    Some(lines.collect::<Vec<_>>().join("; "))
}

/// What the API says, without values that may be secret.
pub(super) fn words(status: &Status) -> String {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
    let causes = causes.unwrap_or_default();
    let message = &status.message;
    let is_own =
        message.contains("\" is invalid: ") && !JUDGES.iter().any(|judge| message.contains(judge));
    if status.code != 422 || causes.is_empty() || !is_own {
        return message.clone();
    }
    causes.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
fn told(cause: &StatusCause) -> String {
    let StatusCause { field, message, .. } = cause;
    // Of a pod, a comparison with all that it has follows in further lines.
    let message = message.lines().next().unwrap_or_default();
    let told =
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
    if field.is_empty() { told.to_owned() } else { format!("{field}: {told}") }
}

/// The value, and what is said of it.
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

/// What follows on the quote that ends a text.
fn after(quoted: &str) -> &str {
    let mut is_escaped = false;
    for (at, letter) in quoted.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return &quoted[at + 1..],
            _ => {}
        }
    }
    ""
}

/// Whether it is a text, a number or a switch, and not something that has parts.
fn is_single(text: &str) -> bool {
    let is_start = |first: char| matches!(first, '"' | '-') || first.is_ascii_digit();
    text.starts_with(is_start)
        || ["true", "false", "null"].iter().any(|word| text.starts_with(word))
}

fn is_shown(field: &str, value: &str) -> bool {
    is_single(value) && value.len() <= LONGEST && !is_telling(field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::read_manifests;
    use super::*;

    fn manifest(api_version: &str, kind: &str) -> Manifest {
        let text = format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}}}");
        read_manifests("x.yaml", &text).unwrap().remove(0)
    }

    fn status(code: u16, message: &str) -> Status {
        serde_json::from_value(json!({"code": code, "message": message})).unwrap()
    }

    fn refused(code: u16, message: &str) -> KubeError {
        let error = kube::Error::Api(Box::new(status(code, message)));
        KubeError::new("try it".to_owned(), error)
    }

    #[test]
    fn only_what_neither_time_nor_others_cure_is_final() {
        let (own, foreign) = (manifest("apps/v1", "Deployment"), manifest("a.example/v1", "Door"));
        let misfit = format!(
            "{MISFIT} (default/a; apps/v1, Kind=Deployment): .spec.x: field not declared in schema"
        );
        let is_final = |manifest: &Manifest, code: u16, message: &str| {
            Refusal::of(manifest, &refused(code, message)).map(|refusal| refusal.is_final)
        };
        for (code, message, of_own, of_foreign) in [
            (500, misfit.as_str(), Some(true), Some(false)),
            (
                422,
                "Deployment.apps \"a\" is invalid: spec.x: Required value",
                Some(true),
                Some(false),
            ),
            (400, "it cannot be handled as a Deployment", Some(true), Some(false)),
            (
                422,
                "Service \"a\" is invalid: provided port is already allocated",
                Some(false),
                Some(false),
            ),
            (400, "admission webhook \"w\" denied the request: no", Some(false), Some(false)),
            (
                422,
                "a is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
                Some(false),
                Some(false),
            ),
            (403, "it is forbidden: exceeded quota", Some(false), Some(false)),
            (400, "admission webhook \"w\" does not support dry run", None, None),
            (500, "failed calling webhook \"w\": connection refused", None, None),
            (401, "Unauthorized", None, None),
            (404, "namespaces \"a\" not found", None, None),
            (409, "the object has been modified", None, None),
            (429, "too many requests", None, None),
            (503, "the server is currently unable to handle the request", None, None),
        ] {
            assert_eq!(is_final(&own, code, message), of_own, "{code} {message}");
            assert_eq!(is_final(&foreign, code, message), of_foreign, "{code} {message}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told_without_what_is_there_instead() {
        let told =
            |fields: &str| misfit(&status(500, &format!("{MISFIT} (a/b; v1, Kind=Pod): {fields}")));
        assert_eq!(
            told(".spec.x: field not declared in schema").unwrap(),
            ".spec.x: field not declared in schema"
        );
        assert_eq!(
            told("errors:\n  .a: field not declared in schema\n  .b: field not declared in schema")
                .unwrap(),
            ".a: field not declared in schema; .b: field not declared in schema"
        );
        assert_eq!(
            told(".data.pin: expected string, got &value{1234}\nhunter2").unwrap(),
            ".data.pin: expected string"
        );
        assert_eq!(misfit(&status(500, "etcdserver: no leader")), None);
    }

    #[test]
    fn values_are_told_where_they_cannot_be_secret() {
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
