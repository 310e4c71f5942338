//! Parsing of HTTP responses into an answer or an error.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_pve_types::secret_parameter::is_secret;
use talmox_pve_types::wire::{Answer, Fields, Unreadable, text};

use crate::error::{Lost, NotSent, PveError, Rejection};

/// Converts an HTTP response to an answer or an error.
///
/// Since PVE 8.4, the body contains the text of an error. Before 8.4, only the reason phrase contains it. Responses
/// about authentication have no body.
pub(crate) fn interpret(
    operation: &str,
    status: u16,
    reason: &str,
    body: &[u8],
) -> Result<Answer, PveError> {
    let json: Option<Value> = if body.trim_ascii().is_empty() {
        Some(Value::Null)
    } else {
        serde_json::from_slice(body).ok()
    };
    if (200..300).contains(&status) {
        let json = json.ok_or_else(|| {
            PveError::lost(operation, Unreadable("the answer is not JSON".to_owned()))
        })?;
        let fields = Fields::of(&json).ok();
        return Ok(Answer {
            data: fields.and_then(|fields| fields.value("data")).cloned().unwrap_or_default(),
            total: fields.and_then(|fields| fields.number("total")),
        });
    }
    let json = json.unwrap_or_default();
    let fields = Fields::of(&json).ok();
    let said = fields.and_then(|fields| fields.text("message"));
    let said = said.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let message = said.unwrap_or_else(|| match reason.trim() {
        "" => "Proxmox gave no reason".to_owned(),
        reason => reason.to_owned(),
    });
    Err(match status {
        595 => PveError::not_sent(operation, NotSent::Node { message }),
        // 596 to 599: the node that received the request lost the connection to the target node. 502 to 504: a gateway
        // lost the connection.
        596..=599 | 502..=504 => PveError::lost(operation, Lost::Proxy { status, message }),
        _ => {
            let errors = fields.and_then(|fields| fields.inner("errors")).map(errors);
            let operation = operation.to_owned();
            Rejection { operation, status, message, errors: errors.unwrap_or_default() }.into()
        }
    })
}

fn errors(fields: Fields<'_>) -> BTreeMap<String, String> {
    let said = |(parameter, value): (&String, &Value)| {
        // The text may quote the value of the parameter, which may be a secret.
        let text = text(value).unwrap_or_else(|| value.to_string());
        let text = if is_secret(parameter) { "is not accepted" } else { text.trim_end() };
        (parameter.clone(), text.to_owned())
    };
    fields.iter().map(said).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejected(status: u16, reason: &str, body: &str) -> Rejection {
        match interpret("GET /x", status, reason, body.as_bytes()) {
            Err(PveError::Rejected(rejection)) => *rejection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_with_and_without_a_data_field_are_parsed() {
        let data =
            |body: &str| interpret("GET /x", 200, "OK", body.as_bytes()).map(|answer| answer.data);
        assert_eq!(data(r#"{"data":[1]}"#).unwrap(), json!([1]));
        for nothing in ["", " \n", r#"{"data":null}"#, "{}", "[]"] {
            assert_eq!(data(nothing).unwrap(), Value::Null, "{nothing}");
        }
        assert!(matches!(data("<html>"), Err(PveError::MaybeApplied { .. })));
        let answer = interpret("GET /x", 200, "OK", br#"{"data":[],"total":"7"}"#).unwrap();
        assert_eq!(answer.total, Some(7));
    }

    #[test]
    fn the_text_of_an_error_comes_from_the_body_or_the_status_line() {
        let body = r#"{"data":null,"message":"storage 'x' does not exist\n"}"#;
        assert_eq!(rejected(500, "Internal", body).message, "storage 'x' does not exist");
        assert_eq!(
            rejected(500, "storage 'x' does not exist", "").message,
            "storage 'x' does not exist"
        );
        assert_eq!(rejected(401, "No ticket", "").message, "No ticket");
        assert_eq!(rejected(500, "it broke", "<html>").message, "it broke");
        assert_eq!(rejected(500, "", "").message, "Proxmox gave no reason");
    }

    #[test]
    fn errors_do_not_contain_the_value_of_a_secret() {
        let body = r#"{"errors":{"cipassword":"value 'hunter2' does not match","ciuser":"odd"}}"#;
        let rejection = rejected(400, "Parameter verification failed.", body);
        assert_eq!(rejection.errors["ciuser"], "odd");
        let shown = format!("{rejection} {rejection:?}");
        assert!(shown.contains("cipassword") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn errors_of_parameters_are_kept() {
        let body = r#"{"data":null,"errors":{"net0":"invalid format\n","vmid":7}}"#;
        let rejection = rejected(400, "Parameter verification failed.", body);
        assert_eq!(rejection.errors["net0"], "invalid format");
        assert_eq!(
            rejection.to_string(),
            "GET /x was rejected: Parameter verification failed. (status 400); net0: invalid format; vmid: 7"
        );
    }
}
