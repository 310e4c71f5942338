//! Access reviews about the calling user: `SelfSubjectReview` and `SelfSubjectAccessReview`.

use serde_json::json;

use super::Answer;
use crate::auth::AccessRequest;
use crate::failure::Failure;
use crate::object::text;
use crate::request::Request;
use crate::store::State;

/// Answers an access review; `None` if the path is not the path of an access review.
pub(super) fn answer(
    state: &State,
    request: &Request,
    path: &str,
) -> Result<Option<Answer>, Failure> {
    if request.method != "POST" {
        return Ok(None);
    }
    let user = &request.user;
    match path {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
            let mut review = request.json()?;
            let info = json!({"username": user.name, "groups": user.groups});
            review["status"] = json!({"userInfo": info});
            Ok(Some(Answer::json(201, &review)))
        }
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            let mut review = request.json()?;
            let attribute =
                |key: &str| text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
            let resource = match attribute("subresource").as_str() {
                "" => attribute("resource"),
                part => format!("{}/{part}", attribute("resource")),
            };
            let path = text(&review, "/spec/nonResourceAttributes/path").to_owned();
            let verb = if path.is_empty() {
                attribute("verb")
            } else {
                text(&review, "/spec/nonResourceAttributes/verb").to_owned()
            };
            let access = AccessRequest {
                verb: &verb,
                group: &attribute("group"),
                resource: &resource,
                namespace: &attribute("namespace"),
                name: &attribute("name"),
                path: &path,
            };
            let allowed = user.may(state, &access);
            review["status"] = json!({"allowed": allowed});
            Ok(Some(Answer::json(201, &review)))
        }
        _ => Ok(None),
    }
}
