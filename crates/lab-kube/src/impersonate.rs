//! Asking in the name of somebody else, as `kubectl --as` does.

use hyper::HeaderMap;

use super::auth::{User, Wish};
use super::failure::Failure;
use super::store::State;

const ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// Whom the answer is for: the one who asks, or the one whom they want to be and may be.
pub(crate) fn impersonated(
    state: &State,
    user: User,
    headers: &HeaderMap,
) -> Result<User, Failure> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.map(str::to_owned).collect()
    };
    let (names, groups) = (all("impersonate-user"), all("impersonate-group"));
    let Some(name) = names.first().filter(|name| !name.is_empty()) else {
        let is_meant = |name: &hyper::header::HeaderName| name.as_str().starts_with("impersonate-");
        return if headers.keys().any(is_meant) {
            Err(Failure::impersonates_nobody())
        } else {
            Ok(user)
        };
    };
    let account = name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
    let authentication = "authentication.k8s.io";
    match account {
        Some((namespace, name)) => ask(state, &user, "", "serviceaccounts", namespace, name)?,
        None => ask(state, &user, "", "users", "", name)?,
    }
    for group in &groups {
        ask(state, &user, "", "groups", "", group)?;
    }
    for uid in all("impersonate-uid") {
        ask(state, &user, authentication, "uids", "", &uid)?;
    }
    for key in headers.keys() {
        let Some(extra) = key.as_str().strip_prefix("impersonate-extra-") else { continue };
        for value in all(key.as_str()) {
            ask(state, &user, authentication, &format!("userextras/{extra}"), "", &value)?;
        }
    }
    Ok(User { name: name.clone(), groups: with_usual(groups, name, account) })
}

/// The groups that somebody is in without being told.
fn with_usual(mut groups: Vec<String>, name: &str, account: Option<(&str, &str)>) -> Vec<String> {
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        let own = format!("system:serviceaccounts:{namespace}");
        groups.extend(["system:serviceaccounts".to_owned(), own]);
    }
    let usual = if name == ANONYMOUS { "system:unauthenticated" } else { "system:authenticated" };
    if !groups.iter().any(|group| group == usual) {
        groups.push(usual.to_owned());
    }
    groups
}

fn ask(
    state: &State,
    user: &User,
    group: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let wish = Wish { verb: "impersonate", group, resource, namespace, name, path: "" };
    if user.may(state, &wish) {
        return Ok(());
    }
    Err(Failure::forbidden_impersonation(&user.name, &wish))
}
