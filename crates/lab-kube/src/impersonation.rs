//! User impersonation, as in `kubectl --as`.

use hyper::HeaderMap;

use super::auth::{AccessRequest, User};
use super::failure::Failure;
use super::store::State;

const ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// Returns the user that a request acts as: the authenticated user, or the impersonated user if RBAC allows the impersonation.
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
        let is_impersonation =
            |name: &hyper::header::HeaderName| name.as_str().starts_with("impersonate-");
        return if headers.keys().any(is_impersonation) {
            Err(Failure::impersonation_without_user())
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
    Ok(User { name: name.clone(), groups: with_default_groups(groups, name, account) })
}

/// Adds the groups that a user is a member of automatically.
fn with_default_groups(
    mut groups: Vec<String>,
    name: &str,
    account: Option<(&str, &str)>,
) -> Vec<String> {
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
    let access = AccessRequest { verb: "impersonate", group, resource, namespace, name, path: "" };
    if user.may(state, &access) {
        return Ok(());
    }
    Err(Failure::forbidden_impersonation(&user.name, &access))
}
