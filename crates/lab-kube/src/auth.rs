//! Authentication and RBAC authorization of API requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use talmox_talos_config::pki::Certificate;

use super::object::{self, list, text};
use super::store::State;
use super::token;

/// Authenticated user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// Verb and resource, or verb and path, that RBAC must allow for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRequest<'w> {
    pub(crate) verb: &'w str,
    pub(crate) group: &'w str,
    /// Resource name with its subresource, such as `pods` or `pods/eviction`.
    pub(crate) resource: &'w str,
    pub(crate) namespace: &'w str,
    pub(crate) name: &'w str,
    /// Path of a request that does not concern a resource; empty for other requests.
    pub(crate) path: &'w str,
}

impl AccessRequest<'_> {
    /// Error message if RBAC does not allow the request of a user.
    pub(crate) fn rejection(&self, user: &str) -> String {
        let scope = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let Self { verb, group, resource, .. } = self;
        format!(
            "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        )
    }
}

impl User {
    fn new(name: &str, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        groups.push("system:authenticated".to_owned());
        Self { name: name.to_owned(), groups }
    }

    /// User named by the subject of a verified client certificate.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            STANDARD.encode(der)
        );
        let subject = Certificate::from_pem(&pem).ok()?.subject;
        let name = subject.common_name?;
        Some(Self::new(&name, subject.organizations))
    }

    /// User of a bearer token. The token belongs to a service account, or is a bootstrap token `id.secret` from a Secret in
    /// `kube-system`.
    pub(crate) fn of_token(state: &State, token: &str) -> Option<Self> {
        if let Some((space, name)) = token::holder(state, token) {
            let groups =
                ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{space}")];
            return Some(Self::new(&format!("system:serviceaccount:{space}:{name}"), groups));
        }
        let (id, secret) = token.split_once('.')?;
        let kept = state.get("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
        let data = |key: &str| {
            let bytes = STANDARD.decode(kept["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let is_right = text(kept, "/type") == "bootstrap.kubernetes.io/token"
            && data("token-secret")? == secret
            && data("usage-bootstrap-authentication")? == "true";
        let extra = data("auth-extra-groups").unwrap_or_default();
        let groups = extra.split(',').filter(|group| !group.is_empty()).map(str::to_owned);
        let all = groups.chain(["system:bootstrappers".to_owned()]);
        is_right.then(|| Self::new(&format!("system:bootstrap:{id}"), all))
    }

    fn is_subject(&self, subject: &Value) -> bool {
        let name = text(subject, "/name");
        match text(subject, "/kind") {
            "User" => name == self.name,
            "Group" => self.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                self.name == format!("system:serviceaccount:{}:{name}", text(subject, "/namespace"))
            }
            _ => false,
        }
    }

    pub(crate) fn may(&self, state: &State, access: &AccessRequest<'_>) -> bool {
        if self.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        let group = "rbac.authorization.k8s.io";
        let role_rules = |binding: &Value| {
            let (id, namespace) = match text(binding, "/roleRef/kind") {
                "ClusterRole" => (format!("clusterroles.{group}"), ""),
                _ => (format!("roles.{group}"), object::namespace(binding)),
            };
            let role = state.get(&id, namespace, text(binding, "/roleRef/name"));
            role.is_some_and(|role| list(role, "/rules").iter().any(|rule| allows(rule, access)))
        };
        let bindings = |id: String| state.iter(&id).collect::<Vec<_>>();
        let wide = bindings(format!("clusterrolebindings.{group}"));
        let mut narrow = bindings(format!("rolebindings.{group}"));
        narrow.retain(|binding| {
            !access.namespace.is_empty() && object::namespace(binding) == access.namespace
        });
        wide.into_iter().chain(narrow).any(|binding| {
            list(binding, "/subjects").iter().any(|subject| self.is_subject(subject))
                && role_rules(binding)
        })
    }
}

fn allows(rule: &Value, access: &AccessRequest<'_>) -> bool {
    let has = |key: &str, wanted: &str| {
        let all = list(rule, &format!("/{key}")).iter().filter_map(Value::as_str);
        all.into_iter().any(|one| one == wanted || one == "*")
    };
    if !access.path.is_empty() {
        let urls = list(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
        let mut urls = urls.map(|url| match url.strip_suffix('*') {
            Some(start) => access.path.starts_with(start),
            None => access.path == url,
        });
        return has("verbs", access.verb) && urls.any(|fits| fits);
    }
    let names = list(rule, "/resourceNames");
    let part = access.resource.split_once('/').map(|(_, part)| format!("*/{part}"));
    has("verbs", access.verb)
        && has("apiGroups", access.group)
        && (has("resources", access.resource) || part.is_some_and(|part| has("resources", &part)))
        && (names.is_empty() || names.iter().any(|name| name == access.name))
}
