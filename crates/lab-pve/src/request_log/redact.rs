//! Removal of secrets from the request log.

use serde_json::{Map, Value as Json};

use crate::http::Params;

const HIDDEN: &str = "<redacted>";

/// Parameters with secret values. The log never contains the `Authorization` header and cookies.
const SECRET: [&str; 11] = [
    "PVEAuthCookie",
    "password",
    "cipassword",
    "confirmation-password",
    "otp",
    "tfa-challenge",
    "vncticket",
    "ticket",
    "token",
    "secret",
    "value",
];

/// Keys of secret values in responses. `value` is missing here, because most values are not secret. The secret of a new API
/// token is recognized by the key `full-tokenid` next to it.
const SECRET_IN_ANSWERS: [&str; 6] =
    ["ticket", "CSRFPreventionToken", "password", "cipassword", "secret", "private-key"];

/// Prefixes of tickets and API tokens.
const TICKETS: [&str; 3] = ["PVE:", "PVEVNC:", "PVEAPIToken"];

pub(super) fn params(params: Params) -> Json {
    let redacted = params.into_iter().map(|(name, value)| {
        let is_secret = SECRET.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        let value = match value {
            Json::Null => Json::Null,
            _ if is_secret => Json::from(HIDDEN),
            Json::String(text) if name == "url" => Json::from(url(&text)),
            value => value,
        };
        (name, value)
    });
    Json::Object(redacted.collect())
}

/// Path without a ticket or token that a client put into the path by mistake.
pub(super) fn path(path: &str) -> String {
    match TICKETS.iter().filter_map(|mark| path.find(mark)).min() {
        Some(at) => format!("{}{HIDDEN}", &path[..at]),
        None => path.to_owned(),
    }
}

/// Redacted body of a response: a JSON body as JSON, any other body as text.
pub(super) fn body(body: &[u8]) -> Json {
    if body.is_empty() {
        return Json::Null;
    }
    match serde_json::from_slice(body) {
        Ok(json) => value(json),
        Err(_) => Json::from(text(&String::from_utf8_lossy(body))),
    }
}

fn value(json: Json) -> Json {
    match json {
        Json::String(found) => Json::from(text(&found)),
        Json::Array(items) => items.into_iter().map(value).collect(),
        Json::Object(fields) => Json::Object(object(fields)),
        other => other,
    }
}

fn object(fields: Map<String, Json>) -> Map<String, Json> {
    let is_token = fields.contains_key("full-tokenid");
    let redacted = fields.into_iter().map(|(key, found)| {
        let is_secret = SECRET_IN_ANSWERS.iter().any(|secret| key.eq_ignore_ascii_case(secret))
            || is_token && key == "value";
        let found = if is_secret && !found.is_null() { Json::from(HIDDEN) } else { value(found) };
        (key, found)
    });
    redacted.collect()
}

/// Redacted text of a response. Cloud-init user data contains passwords, each on a line of its own.
pub(super) fn text(text: &str) -> String {
    if text.contains("PRIVATE KEY-----") || TICKETS.iter().any(|mark| text.starts_with(mark)) {
        return HIDDEN.to_owned();
    }
    let lines = text.split('\n').map(|line| match line.split_once("password:") {
        Some((indent, rest)) if indent.trim().is_empty() && !rest.trim().is_empty() => {
            format!("{indent}password: {HIDDEN}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// URL without credentials and without the query, which may contain passwords and signatures.
fn url(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?<redacted>"));
    let Some((scheme, rest)) = url.split_once("://") else { return format!("{url}{query}") };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority
        .rsplit_once('@')
        .map_or(authority.to_owned(), |(_, host)| format!("{HIDDEN}@{host}"));
    format!("{scheme}://{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_and_queries_are_removed_from_urls() {
        let cases = [
            ("http://me:pass@host:80/a/b?token=x", "http://<redacted>@host:80/a/b?<redacted>"),
            ("https://host/a@b", "https://host/a@b"),
            ("https://host", "https://host"),
            ("nonsense?x", "nonsense?<redacted>"),
        ];
        for (given, shown) in cases {
            assert_eq!(url(given), shown);
        }
    }

    #[test]
    fn secret_parameters_are_redacted_in_any_case() {
        let given = [("pveauthcookie", "PVE:x"), ("cipassword", "x"), ("name", "x")];
        let given = given.map(|(name, value)| (name.to_owned(), Json::from(value)));
        let shown = params(given.into_iter().collect());
        assert_eq!(shown["pveauthcookie"], "<redacted>");
        assert_eq!(shown["cipassword"], "<redacted>");
        assert_eq!(shown["name"], "x");
    }

    #[test]
    fn tickets_tokens_passwords_and_keys_are_removed_from_responses() {
        let given = json!({"data": [
            {"ticket": "PVE:root@pam:1::x", "CSRFPreventionToken": "1:x", "username": "root@pam"},
            {"full-tokenid": "root@pam!x", "value": "11111111", "info": {"privsep": 1}},
            {"key": "cores", "value": 4},
            "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n",
            "PVEVNC:6553::x",
            "user: me\npassword: $5$x\nchpasswd:\n",
        ]});
        let shown = body(given.to_string().as_bytes());
        assert_eq!(
            shown,
            json!({"data": [
                {"ticket": HIDDEN, "CSRFPreventionToken": HIDDEN, "username": "root@pam"},
                {"full-tokenid": "root@pam!x", "value": HIDDEN, "info": {"privsep": 1}},
                {"key": "cores", "value": 4},
                HIDDEN,
                HIDDEN,
                "user: me\npassword: <redacted>\nchpasswd:\n",
            ]})
        );
        assert_eq!(body(b""), Json::Null);
        assert_eq!(body(b"upload failed"), json!("upload failed"));
    }
}
