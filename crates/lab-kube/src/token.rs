//! Issue and verification of service account tokens.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::failure::Failure;
use super::object::{self, list, text};
use super::store::State;

const ISSUER: &str = "https://kubernetes.default.svc";
const MIN_SECONDS: u64 = 600;
const DEFAULT_SECONDS: u64 = 3600;

/// Answers a `TokenRequest` for a service account.
pub(super) fn issue(state: &mut State, account: &Value, wanted: &Value) -> Result<Value, Failure> {
    let seconds = wanted["spec"]["expirationSeconds"].as_i64();
    let seconds = match seconds.map(u64::try_from) {
        None => DEFAULT_SECONDS,
        Some(Ok(seconds)) if seconds >= MIN_SECONDS => seconds,
        Some(other) => {
            let given =
                other.map_or_else(|_| seconds.unwrap_or_default().to_string(), |n| n.to_string());
            let problem =
                format!("Invalid value: {given}: may not specify a duration less than 10 minutes");
            return Err(Failure::invalid_token_request("spec.expirationSeconds", &problem));
        }
    };
    let mut audiences = list(wanted, "/spec/audiences").to_vec();
    if audiences.is_empty() {
        audiences.push(ISSUER.into());
    }
    let (space, name) = (object::namespace(account), object::name(account));
    let now = state.now.as_secs();
    let claims = json!({
        "aud": audiences,
        "exp": now + seconds,
        "iat": now,
        "iss": ISSUER,
        "jti": state.new_uid(),
        "kubernetes.io": {
            "namespace": space,
            "serviceaccount": {"name": name, "uid": object::uid(account)},
        },
        "nbf": now,
        "sub": format!("system:serviceaccount:{space}:{name}"),
    });
    let head = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "typ": "JWT"}).to_string());
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key(state), signed.as_bytes()));
    let until = state.timestamp_at(state.now + std::time::Duration::from_secs(seconds));
    Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": object::uid(account),
            "creationTimestamp": state.timestamp(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
        "status": {"token": format!("{signed}.{signature}"), "expirationTimestamp": until},
    }))
}

fn key(state: &State) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &state.token_key())
}

/// Namespace and name of the service account that a valid token belongs to.
pub(super) fn holder(state: &State, token: &str) -> Option<(String, String)> {
    let (signed, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    hmac::verify(&key(state), signed.as_bytes(), &signature).ok()?;
    let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let is_audience = list(&claims, "/aud").iter().any(|audience| audience == ISSUER);
    let own = &claims["kubernetes.io"];
    let (space, name) = (text(own, "/namespace"), text(own, "/serviceaccount/name"));
    let account = state.get("serviceaccounts", space, name)?;
    let counts = is_audience
        && object::uid(account) == text(own, "/serviceaccount/uid")
        && claims["exp"].as_u64()? > state.now.as_secs();
    counts.then(|| (space.to_owned(), name.to_owned()))
}
