//! Rejection of a manifest by the API, and whether it is final.

use talmox_plan::manifest::Manifest;
use talmox_plan::observed::RejectedObject;

use super::KubeError;
use super::rejection_text::JUDGES;

/// Text of the API about a port or an address that another object uses at the moment.
const TAKEN: &str = "already allocated";

/// Reason why the API rejects a manifest. None if the API may accept the manifest, or if the reason may pass by itself.
pub(super) fn rejection_of(manifest: &Manifest, error: &KubeError) -> Option<RejectedObject> {
    let is_final = match error {
        KubeError::Misfit { .. } => manifest.is_built_in(),
        KubeError::Rejected { status, .. } => {
            let says = |words: &str| status.message.contains(words);
            let is_about_others = says(TAKEN) || JUDGES.iter().any(|judge| says(judge));
            match status.code {
                _ if says("does not support dry run") => return None,
                400 | 413 | 422 => manifest.is_built_in() && !is_about_others,
                // The client has all rights, so the rejection is about quotas, policies or classes.
                403 => false,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(RejectedObject {
        object: manifest.to_string(),
        place: manifest.place.clone(),
        why: error.reason(),
        is_final,
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;
    use talmox_plan::manifest::read_manifests;

    use super::super::rejection_text::MISFIT;
    use super::*;

    fn manifest(api_version: &str, kind: &str) -> Manifest {
        let text = format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}}}");
        read_manifests("x.yaml", &text).unwrap().remove(0)
    }

    fn status(code: u16, message: &str) -> Status {
        serde_json::from_value(json!({"code": code, "message": message})).unwrap()
    }

    fn rejected(code: u16, message: &str) -> KubeError {
        let error = kube::Error::Api(Box::new(status(code, message)));
        KubeError::new("try it".to_owned(), error)
    }

    #[test]
    fn only_a_rejection_that_neither_time_nor_other_objects_change_is_final() {
        let (own, foreign) = (manifest("apps/v1", "Deployment"), manifest("a.example/v1", "Door"));
        let misfit = format!(
            "{MISFIT} (default/a; apps/v1, Kind=Deployment): .spec.x: field not declared in schema"
        );
        let is_final = |manifest: &Manifest, code: u16, message: &str| {
            rejection_of(manifest, &rejected(code, message)).map(|rejected| rejected.is_final)
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
}
