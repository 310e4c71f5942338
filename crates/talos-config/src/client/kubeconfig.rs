//! kubeconfig of an administrator, with the names that talosctl uses.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::{Map, Node, Seq, Value};

use super::{
    BACKDATED, ClientError, ContextExpiry, Merged, expiry_of, free_name, read_commented_root,
    read_root, set,
};
use crate::format::text as string;
use crate::pki::{Certificate, LeafRequest, Name, PrivateKey, Usage};
use crate::random::Randomness;
use crate::secret::SecretText;
use crate::secrets::Bundle;
use crate::time::UnixTime;
use crate::tree::{list, map_of};

const FILE: &str = "kubeconfig";
const USER: &str = "admin";
const CA: &str = "certificate-authority-data";

/// Input of a kubeconfig.
#[derive(Clone, Debug)]
pub struct KubeconfigRequest<'a> {
    pub cluster: &'a str,
    /// URL of the Kubernetes API.
    pub server: &'a str,
    /// Name that the certificate of the server contains, if it differs from the host of the URL.
    pub tls_server_name: Option<&'a str>,
    /// Groups of the user. The group `system:masters` has all permissions.
    pub groups: &'a [String],
    pub ttl: Duration,
}

/// Generates a kubeconfig for an administrator. The cluster is named `<name>`; user and context are named
/// `admin@<name>`.
pub fn generate(
    bundle: &Bundle,
    request: &KubeconfigRequest<'_>,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<SecretText, ClientError> {
    let (certificate, key) = issue(bundle, request.groups, request.ttl, now, randomness)?;
    let name = format!("{USER}@{}", request.cluster);
    let mut cluster = vec![("server", string(request.server))];
    if let Some(name) = request.tls_server_name {
        cluster.push(("tls-server-name", string(name)));
    }
    cluster.push((CA, string(bundle.certs.k8s.crt_base64())));
    let user = map_of([
        ("client-certificate-data", string(STANDARD.encode(certificate.to_pem()))),
        ("client-key-data", string(STANDARD.encode(key.to_pem().expose()))),
    ]);
    let context = map_of([
        ("cluster", string(request.cluster)),
        ("namespace", string("default")),
        ("user", string(&name)),
    ]);
    let named = |kind, name: &str, value| list([map_of([("name", string(name)), (kind, value)])]);
    let root = map_of([
        ("apiVersion", string("v1")),
        ("kind", string("Config")),
        ("clusters", named("cluster", request.cluster, map_of(cluster))),
        ("users", named("user", &name, user)),
        ("contexts", named("context", &name, context)),
        ("current-context", string(&name)),
    ]);
    Ok(SecretText::new(talmox_yaml::emit(&root, 2)))
}

/// Issues the certificate and the key of an administrator, for a kubeconfig or for direct use.
pub fn issue(
    bundle: &Bundle,
    groups: &[String],
    ttl: Duration,
    now: UnixTime,
    randomness: &mut dyn Randomness,
) -> Result<(Certificate, PrivateKey), ClientError> {
    let authority = bundle.certs.k8s.authority();
    let authority =
        authority.map_err(|source| ClientError::Authority { authority: "Kubernetes", source })?;
    let leaf = LeafRequest {
        subject: Name { organizations: groups.to_vec(), common_name: Some(USER.to_owned()) },
        alt_names: vec![],
        usage: Usage::Client,
        key_encipherment: true,
        not_before: now.minus(BACKDATED),
        lifetime: ttl + BACKDATED,
    };
    authority.issue(&leaf, randomness).map_err(ClientError::Issue)
}

/// Merges the output of [`generate`] into `existing`. `existing` may be empty.
pub fn merge(existing: &str, new: &SecretText) -> Result<Merged, ClientError> {
    let mut root = read_commented_root(existing, FILE)?;
    let new = read_root(new.expose(), FILE)?;
    let broken = |what| ClientError::NotClientFile { file: FILE, what };
    let one = |kind| {
        let list = items(&new, kind)?;
        let item = list.items.into_iter().next();
        item.ok_or(broken("it has no cluster, user or context"))
    };
    let (cluster, user, context) = (one("clusters")?, one("users")?, one("contexts")?);
    let mut clusters = items(&root, "clusters")?;
    let mut users = items(&root, "users")?;
    let mut contexts = items(&root, "contexts")?;

    let wanted = name_of(&cluster).unwrap_or_default().to_owned();
    let mut replaced = false;
    let name = free_name(&wanted, |name| {
        let full = format!("{USER}@{name}");
        match find(&clusters, name) {
            Some(known) => {
                replaced = ca_of(known).is_some() && ca_of(known) == ca_of(&cluster);
                replaced
            }
            None => find(&users, &full).is_none() && find(&contexts, &full).is_none(),
        }
    });
    let full = format!("{USER}@{name}");
    put(&mut clusters, &name, cluster);
    put(&mut users, &full, user);
    let context = with_names(context, &name, &full);
    put(&mut contexts, &full, context);

    for (key, text) in [("apiVersion", "v1"), ("kind", "Config")] {
        if root.get(key).is_none() {
            set(&mut root, key, string(text));
        }
    }
    for (key, seq) in [("clusters", clusters), ("users", users), ("contexts", contexts)] {
        set(&mut root, key, Node::from(Value::Seq(seq)));
    }
    set(&mut root, "current-context", string(&full));
    let text = talmox_yaml::emit(&Node::from(Value::Map(root)), 2);
    Ok(Merged { text: SecretText::new(text), context: full, replaced })
}

/// Expiry of the client certificates in a kubeconfig.
pub fn expiry(text: &str) -> Result<Vec<ContextExpiry>, ClientError> {
    let root = read_root(text, FILE)?;
    let users = items(&root, "users")?;
    let contexts = items(&root, "contexts")?;
    let expiry = |context: &Node| {
        let user = inner(context, "context")?.get("user")?.as_str()?;
        let certificate = inner(find(&users, user)?, "user")?.get("client-certificate-data")?;
        expiry_of(certificate.as_str())
    };
    let entries = contexts.items.iter().map(|context| ContextExpiry {
        context: name_of(context).unwrap_or_default().to_owned(),
        not_after: expiry(context),
    });
    Ok(entries.collect())
}

fn items(root: &Map, key: &str) -> Result<Seq, ClientError> {
    match root.get(key) {
        None => Ok(Seq::default()),
        Some(node) if node.is_null() => Ok(Seq::default()),
        Some(node) => node.as_seq().cloned().ok_or(ClientError::NotClientFile {
            file: FILE,
            what: "`clusters`, `users` and `contexts` must be lists",
        }),
    }
}

fn name_of(item: &Node) -> Option<&str> {
    item.as_map()?.get("name")?.as_str()
}

fn inner<'a>(item: &'a Node, kind: &str) -> Option<&'a Map> {
    item.as_map()?.get(kind)?.as_map()
}

fn ca_of(cluster: &Node) -> Option<&str> {
    inner(cluster, "cluster")?.get(CA)?.as_str()
}

fn find<'a>(seq: &'a Seq, name: &str) -> Option<&'a Node> {
    seq.items.iter().find(|item| name_of(item) == Some(name))
}

/// Replaces the item with this name, or appends the item.
fn put(seq: &mut Seq, name: &str, mut item: Node) {
    if let Value::Map(map) = &mut item.value {
        set(map, "name", string(name));
    }
    match seq.items.iter_mut().find(|known| name_of(known) == Some(name)) {
        Some(known) => *known = item,
        None => seq.items.push(item),
    }
}

fn with_names(mut context: Node, cluster: &str, user: &str) -> Node {
    if let Value::Map(map) = &mut context.value
        && let Some(entry) = map.entries.iter_mut().find(|e| e.key.as_str() == Some("context"))
        && let Value::Map(inner) = &mut entry.value.value
    {
        set(inner, "cluster", string(cluster));
        set(inner, "user", string(user));
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{NOW, bundle};
    use crate::random::Seeded;

    fn make(bundle: &Bundle) -> SecretText {
        let groups = ["system:masters".to_owned()];
        let request = KubeconfigRequest {
            groups: &groups,
            cluster: "home",
            server: "https://10.0.0.20:6443",
            tls_server_name: None,
            ttl: Duration::from_hours(24),
        };
        generate(bundle, &request, NOW, &mut Seeded(1)).unwrap()
    }

    #[test]
    fn a_kubeconfig_has_the_names_of_talosctl() {
        let text = make(&bundle(1));
        assert!(text.expose().starts_with("apiVersion: v1\nkind: Config\nclusters:\n  - name: home\n    cluster:\n      server: https://10.0.0.20:6443\n      certificate-authority-data: "));
        assert!(text.expose().ends_with("contexts:\n  - name: admin@home\n    context:\n      cluster: home\n      namespace: default\n      user: admin@home\ncurrent-context: admin@home\n"));
        let expiry = expiry(text.expose()).unwrap();
        assert_eq!(expiry[0].not_after, Some(NOW.plus(Duration::from_hours(24))));
    }

    #[test]
    fn merging_replaces_the_same_cluster_only() {
        // Two bundles of the same seed would differ, because ECDSA signatures are random.
        let (one, two) = (bundle(1), bundle(2));
        let first = merge("", &make(&one)).unwrap();
        assert_eq!(first.context, "admin@home");
        let again = merge(first.text.expose(), &make(&one)).unwrap();
        assert_eq!((again.context.as_str(), again.replaced), ("admin@home", true));
        let other = merge(again.text.expose(), &make(&two)).unwrap();
        assert_eq!((other.context.as_str(), other.replaced), ("admin@home-1", false));
        assert!(other.text.expose().contains(
            "      cluster: home-1\n      namespace: default\n      user: admin@home-1\n"
        ));
        assert_eq!(expiry(other.text.expose()).unwrap().len(), 2);
    }

    #[test]
    fn merging_keeps_other_entries() {
        let existing = "apiVersion: v1\nclusters: []\npreferences: {colors: true}\nusers:\n- name: admin@home\n  user: {exec: {command: x}}\n";
        let merged = merge(existing, &make(&bundle(1))).unwrap();
        assert_eq!(merged.context, "admin@home-1");
        assert!(merged.text.expose().contains("command: x\n"));
        assert!(merged.text.expose().contains("colors: true\n"));
        assert_eq!(expiry(merged.text.expose()).unwrap().len(), 1);
    }

    #[test]
    fn merging_keeps_comments() {
        let existing = "# mine\napiVersion: v1\nkind: Config\nclusters:\n  # at work\n  - name: work\n    #name\n    cluster: {server: x}\nusers: []\n# the end\n";
        let merged = merge(existing, &make(&bundle(1))).unwrap();
        let text = merged.text.expose();
        let start = "# mine\napiVersion: v1\nkind: Config\nclusters:\n  # at work\n  - name: work\n    #name\n    cluster:\n      server: x\n  - name: home\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("# the end\n"), "{text}");
        assert_eq!(expiry(text).unwrap().len(), 1);
    }
}
