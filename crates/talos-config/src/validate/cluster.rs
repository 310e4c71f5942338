//! Validation of the section `cluster` of the v1alpha1 document.

use super::machine::invalid_subnets;
use super::{Report, View};
use crate::format::url::Url;
use crate::schema::Release;

const DISCOVERY_SERVICE: &str = "https://discovery.talos.dev/";

pub(super) fn validate(cluster: View<'_>, is_control_plane: bool, report: &mut Report) {
    if !cluster.is_set() {
        report.error("cluster instructions are required");
        return;
    }
    let endpoint = cluster.at(&["controlPlane", "endpoint"]);
    if !endpoint.is_set() {
        report.error("cluster controlplane endpoint is required");
        return;
    }
    if let Err(reason) = check_endpoint(endpoint.text()) {
        report.error(format!("invalid controlplane endpoint: {reason}"));
    }
    let domain = cluster.at(&["network", "dnsDomain"]).text();
    if !domain.is_empty() && !is_dns_name(domain) {
        report.error(format!("{domain:?} is not a valid DNS name"));
    }
    external_cloud_provider(cluster.get("externalCloudProvider"), report);
    let etcd = cluster.get("etcd");
    if etcd.is_set() {
        if is_control_plane {
            validate_etcd(etcd, report);
        } else {
            report.error("etcd config is only allowed on control plane machines");
        }
    }
    report.check(
        is_control_plane || cluster.at(&["ca", "key"]).text().is_empty(),
        "cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)",
    );
    inline_manifests(cluster.get("inlineManifests"), report);
    discovery(cluster, report);
    let components = [
        ("apiServer", "apiserver"),
        ("controllerManager", "controller-manager"),
        ("scheduler", "scheduler"),
    ];
    for (key, name) in components {
        let component = cluster.get(key);
        if key == "apiServer"
            && let Some(reason) = authorization(component)
        {
            report.error(reason);
        } else if let Some(resource) = unsupported_resource(component.get("resources")) {
            report.error(format!(
                "{name} resource validation failed: unsupported pod resource {resource:?}"
            ));
        }
    }
}

/// Checks that the endpoint is a URL with a host and a valid port.
fn check_endpoint(source: &str) -> Result<(), String> {
    let url = Url::parse(source)?;
    if url.host.matches(':').count() > 2 && !(url.host.contains('[') && url.host.contains(']')) {
        return Err("IPv6 addresses MUST be enclosed by square brackets".to_owned());
    }
    if url.hostname().is_empty() {
        return Err("hostname must not be blank".to_owned());
    }
    match url.port().map(str::parse::<u64>) {
        None | Some(Ok(1..=65535)) => Ok(()),
        Some(Ok(_)) => Err("port number must be between 1 and 65535".to_owned()),
        Some(Err(_)) => Err("port number must be numeric".to_owned()),
    }
}

fn is_dns_name(name: &str) -> bool {
    if name.len() - name.matches('.').count() > 255 {
        return false;
    }
    let name = name.strip_suffix(['.', '_']).unwrap_or(name);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.starts_with(is_word)
            && label.chars().all(|c| is_word(c) || c == '-')
    })
}

pub(super) fn validate_cni(cni: View<'_>, release: Release, report: &mut Report) {
    let name = if cni.is_set() { cni.get("name").text() } else { "flannel" };
    let urls = cni.get("urls");
    let no_urls = format!("\"urls\" field should be empty for {name:?} CNI");
    match name {
        "flannel" => report.check(urls.is_empty(), &no_urls),
        "none" | "custom" => {
            if name == "none" {
                report.check(urls.is_empty(), &no_urls);
            } else if urls.is_empty() {
                report.warn(format!("\"urls\" field should not be empty for {name:?} CNI"));
            }
            let flannel = cni.get("flannel");
            report.check(
                flannel.get("extraArgs").is_empty(),
                &format!("\"flanneldExtraArgs\" field should be empty for {name:?} CNI"),
            );
            if release >= Release::V1_13 {
                report.check(
                    !flannel.get("kubeNetworkPoliciesEnabled").is_true(),
                    &format!(
                        "\"flannelKubeNetworkPoliciesEnabled\" should not be enabled for {name:?} CNI"
                    ),
                );
            }
            if name == "custom" {
                let wrong = urls.texts().filter_map(|url| check_endpoint(url).err());
                wrong.for_each(|reason| report.error(reason));
            }
        }
        _ => report.error("cni name should be one of [\"flannel\", \"custom\", \"none\"]"),
    }
}

fn external_cloud_provider(provider: View<'_>, report: &mut Report) {
    let manifests = provider.get("manifests");
    if !provider.get("enabled").is_true() && !manifests.is_empty() {
        report.error("external cloud provider is disabled, but manifests are provided");
        return;
    }
    for url in manifests.texts() {
        if let Err(reason) = check_endpoint(url) {
            report.error(format!("invalid external cloud provider manifest url {url:?}: {reason}"));
        }
    }
}

fn validate_etcd(etcd: View<'_>, report: &mut Report) {
    report.check(etcd.get("ca").is_set(), "key/cert combination should not be empty");
    let (subnet, advertised) = (etcd.get("subnet"), etcd.get("advertisedSubnets"));
    report.check(
        subnet.text().is_empty() || advertised.is_empty(),
        "etcd subnet can't be set when advertised subnets are set",
    );
    let from_subnet = Some(subnet.text()).filter(|subnet| !subnet.is_empty());
    let advertised_subnets: Vec<&str> = if advertised.is_empty() {
        from_subnet.into_iter().collect()
    } else {
        advertised.texts().collect()
    };
    for subnet in invalid_subnets(advertised_subnets.into_iter()) {
        report.error(format!("etcd advertised subnet is not valid: {subnet:?}"));
    }
    let listen = etcd.get("listenSubnets");
    let listen = if listen.is_empty() { advertised } else { listen };
    for subnet in invalid_subnets(listen.texts()) {
        report.error(format!("etcd listen subnet is not valid: {subnet:?}"));
    }
}

fn inline_manifests(manifests: View<'_>, report: &mut Report) {
    let mut known: Vec<&str> = vec![];
    for manifest in manifests.items() {
        let name = manifest.get("name").text();
        report.check(!name.trim().is_empty(), "inline manifest name can't be empty");
        if known.contains(&name) {
            report.error(format!("inline manifest name {name:?} is duplicate"));
        }
        known.push(name);
    }
}

fn discovery(cluster: View<'_>, report: &mut Report) {
    let discovery = cluster.get("discovery");
    let service = discovery.at(&["registries", "service"]);
    if !discovery.get("enabled").is_true() || service.get("disabled").is_true() {
        return;
    }
    let endpoint = match service.get("endpoint").text() {
        "" => DISCOVERY_SERVICE,
        endpoint => endpoint,
    };
    match Url::parse(endpoint) {
        Ok(url) if url.scheme.is_empty() && !endpoint.starts_with('/') => report.error(format!(
            "cluster discovery service registry endpoint is invalid: parse {endpoint:?}: invalid URI for request"
        )),
        Ok(url) => report.check(
            matches!(url.path.as_slice(), b"" | b"/"),
            "cluster discovery service path should be empty",
        ),
        Err(reason) => report.error(format!(
            "cluster discovery service registry endpoint is invalid: {reason}"
        )),
    }
    report.check(
        !cluster.get("id").text().is_empty(),
        "cluster discovery service requires .cluster.id",
    );
    report.check(
        !cluster.get("secret").text().is_empty(),
        "cluster discovery service requires .cluster.secret",
    );
}

/// First problem of the authorizers of the API server.
fn authorization(api_server: View<'_>) -> Option<String> {
    let authorizers = api_server.get("authorizationConfig");
    if authorizers.is_set() {
        for (argument, _) in api_server.get("extraArgs").entries() {
            if argument == "authorization-mode" {
                return Some("authorization-mode cannot be used in conjunction with AuthorizationConfig, use eitherr AuthorizationConfig or authorization-mode".to_owned());
            }
            if argument.starts_with("authorization-webhook-") {
                return Some("authorization-webhook-* flags cannot be used in conjunction with AuthorizationConfig, use either AuthorizationConfig or authorization-webhook-* flags".to_owned());
            }
        }
    }
    authorizers.items().find_map(|authorizer| {
        let (kind, name) = (authorizer.get("type").text(), authorizer.get("name").text());
        let reason = match (kind, name) {
            ("", _) => "authorizer type must be set".to_owned(),
            (_, "") => "authorizer name must be set".to_owned(),
            ("Node" | "RBAC" | "Webhook", _) => return None,
            _ => format!(
                "authorizer type {kind} is not allowed, allowed types are [Node RBAC Webhook]"
            ),
        };
        Some(format!("apiserver authorization config validation failed: {reason}"))
    })
}

fn unsupported_resource(resources: View<'_>) -> Option<&str> {
    ["requests", "limits"].iter().find_map(|key| {
        let mut names = resources.get(key).entries().map(|(name, _)| name);
        names.find(|name| !matches!(*name, "memory" | "cpu"))
    })
}
