//! The code behind the endpoints, one module for each part of the tree.

use serde_json::json;

use super::Refusal;
use super::call::{Call, Outcome, Reply, Upload};
use super::schema::{Endpoint, Method};

/// Answers a call that passed the gates.
pub(crate) async fn answer(endpoint: &Endpoint, call: Call, upload: Option<Upload>) -> Outcome {
    let _ = upload;
    match endpoint.id() {
        (Method::Get, "/version") => Ok(version(&call)),
        (method, path) => {
            let text = format!("Method '{} {path}' not implemented", method.name());
            Err(Refusal::new(501, text))
        }
    }
}

fn version(call: &Call) -> Reply {
    Reply::Data(json!({
        "version": call.release.version(),
        "release": call.release.release(),
        "repoid": "0f1e2d3c4b5a6978",
    }))
}
