//! Validation of the documents about registries, extensions, logs and trust.

use super::devices::split_host_port;
use super::{Report, View, pem};
use crate::cel::{self, Environment, ResultType};
use crate::format::duration;
use crate::format::url::Url;

const MIN_WATCHDOG_TIMEOUT: i64 = 10_000_000_000;

pub(super) fn validate(kind: &str, view: View<'_>, report: &mut Report) {
    match kind {
        "EnvironmentConfig" => environment(view, report),
        "EventSinkConfig" => {
            let endpoint = view.get("endpoint").text();
            if let Err(reason) = split_host_port(endpoint) {
                let address = if endpoint.is_empty() {
                    String::new()
                } else {
                    format!("address {endpoint}: ")
                };
                report.error(format!("event sink endpoint: {address}{reason}"));
            }
        }
        "ExtensionServiceConfig" => extension_service(view, report),
        "ImageVerificationConfig" => image_verification(view, report),
        "KmsgLogConfig" => kmsg_log(view, report),
        "OOMConfig" => oom(view, report),
        "RegistryAuthConfig" => registry_auth(view, report),
        "RegistryMirrorConfig" => registry_mirror(view, report),
        "RegistryTLSConfig" => registry_tls(view, report),
        "SideroLinkConfig" => sidero_link(view, report),
        "WatchdogTimerConfig" => watchdog(view, report),
        _ => {}
    }
}

fn environment(view: View<'_>, report: &mut Report) {
    for (name, _) in view.get("variables").entries() {
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
        if !is_name {
            report.error(format!("invalid environment variable name: {name:?}"));
        }
    }
}

fn extension_service(view: View<'_>, report: &mut Report) {
    let name = view.get("name").text();
    if name.is_empty() {
        return report.error("name is required");
    }
    let files = view.get("configFiles");
    if files.is_empty() && view.get("environment").is_empty() {
        return report.error(format!("no config files found for extension {name:?}"));
    }
    for file in files.items() {
        if file.get("content").text().is_empty() {
            return report.error(format!("extension content is required for extension {name:?}"));
        }
        if file.get("mountPath").text().is_empty() {
            return report
                .error(format!("extension mount path is required for extension {name:?}"));
        }
    }
}

fn image_verification(view: View<'_>, report: &mut Report) {
    const SCOPE: &str =
        "but matching only applies to the image registry and repository, not the tag or digest";
    for (at, rule) in view.get("rules").items().enumerate() {
        let image = rule.get("image").text();
        if image.is_empty() {
            report.error(format!("rule {at}: imagePattern must be specified"));
        }
        if image.contains('@') {
            report.warn(format!("rule {at}: imagePattern contains '@' {SCOPE}"));
        }
        if image.split_once('/').is_some_and(|(_, repository)| repository.contains(':')) {
            report.warn(format!("rule {at}: imagePattern contains ':' {SCOPE}"));
        }
        if !image.contains('/') && !matches!(image, "" | "*") {
            report.warn(format!(
                "rule {at}: imagePattern does not contain a '/', image references like 'nginx' are matched as 'docker.io/nginx' (normalized)"
            ));
        }
        let (skip, deny) = (rule.get("skip").is_true(), rule.get("deny").is_true());
        let (keyless, public_key) = (rule.get("keyless"), rule.get("publicKey"));
        let has_verifier = keyless.is_set() || public_key.is_set();
        let mut check = |ok: bool, reason: &str| {
            if !ok {
                report.error(format!("rule {at}: {reason}"));
            }
        };
        check(!(skip && deny), "skip and deny cannot both be true");
        check(
            !((skip || deny) && has_verifier),
            "verifiers cannot be configured if skip or deny is true",
        );
        check(skip || deny || has_verifier, "at least one verifier must be configured");
        check(
            !(keyless.is_set() && public_key.is_set()),
            "only one of keyless or publicKey verifier can be configured",
        );
        if keyless.is_set() {
            check(
                !keyless.get("issuer").text().is_empty(),
                "verifier OIDC issuer must be specified",
            );
            let has_subject = !keyless.get("subject").text().is_empty()
                || !keyless.get("subjectRegex").text().is_empty();
            check(has_subject, "verifier subject or subjectRegex must be specified");
        }
        if public_key.is_set() {
            check(
                !public_key.get("certificate").text().is_empty(),
                "verifier certificates must be specified",
            );
        }
    }
}

fn kmsg_log(view: View<'_>, report: &mut Report) {
    if view.get("name").text().is_empty() {
        return report.error("name is required");
    }
    let Some(url) = url_of(view.get("url")) else {
        return report.error("url is required");
    };
    if !matches!(url.scheme.as_str(), "tcp" | "udp") {
        return report.error("url scheme must be tcp:// or udp://");
    }
    if !matches!(url.path.as_slice(), b"" | b"/") {
        return report.error("url path must be empty");
    }
    report.check(url.port().is_some(), "url port is required");
}

fn url_of(view: View<'_>) -> Option<Url> {
    let text = Some(view.text()).filter(|text| !text.is_empty())?;
    Url::parse(text).ok()
}

fn oom(view: View<'_>, report: &mut Report) {
    let places = [
        ("triggerExpression", "OOM trigger", Environment::oom_trigger(), ResultType::Bool),
        (
            "cgroupRankingExpression",
            "OOM cgroup scoring",
            Environment::oom_ranking(),
            ResultType::Double,
        ),
    ];
    for (key, what, environment, wanted) in places {
        let expression = view.get(key).text();
        if expression.is_empty() {
            continue;
        }
        if let Err(reason) = cel::check(expression, &environment, wanted) {
            report.error(format!("{what} expression is invalid: {reason}"));
        }
    }
    let interval = duration::parse(view.get("sampleInterval").text()).unwrap_or(0);
    report.check(interval >= 0, "OOM sample interval must be longer than 0");
}

fn registry_auth(view: View<'_>, report: &mut Report) {
    let given = |key: &str| !view.get(key).text().is_empty();
    report.check(given("name"), "name must be specified");
    report.check(
        !(given("username") && given("identityToken")),
        "only one of username/password or identityToken authentication can be specified",
    );
    report.check(
        !(given("auth") && (given("username") || given("identityToken"))),
        "only one of auth, username/password or identityToken authentication can be specified",
    );
}

fn registry_mirror(view: View<'_>, report: &mut Report) {
    report.check(!view.get("name").text().is_empty(), "name must be specified");
    for (at, endpoint) in view.get("endpoints").items().enumerate() {
        match url_of(endpoint.get("url")) {
            None => report.error(format!("endpoints[{at}].url must be specified")),
            Some(url) if !matches!(url.scheme.as_str(), "http" | "https") => {
                report
                    .error(format!("endpoints[{at}].url has unsupported scheme: {:?}", url.scheme));
            }
            Some(_) => {}
        }
    }
}

fn registry_tls(view: View<'_>, report: &mut Report) {
    report.check(!view.get("name").text().is_empty(), "name must be specified");
    let ca = view.get("ca").text();
    report.check(
        ca.is_empty() || pem::has_certificate(ca),
        "ca must be a valid PEM-encoded certificate",
    );
    let identity = view.get("clientIdentity");
    if identity.is_set() {
        if let Err(reason) = pem::check_certificate(identity.get("cert").text()) {
            report.error(format!("client identity certificate is invalid: {reason}"));
        }
        if let Err(reason) = pem::check_private_key(identity.get("key").text()) {
            report.error(format!("client identity key is invalid: {reason}"));
        }
    }
}

fn sidero_link(view: View<'_>, report: &mut Report) {
    let Some(url) = url_of(view.get("apiUrl")) else {
        return report.error("apiUrl is required");
    };
    if !matches!(url.scheme.as_str(), "https" | "grpc") {
        return report.error("apiUrl scheme must be https:// or grpc://");
    }
    report.check(matches!(url.path.as_slice(), b"" | b"/"), "apiUrl path must be empty");
}

fn watchdog(view: View<'_>, report: &mut Report) {
    if view.get("device").text().is_empty() {
        return report.error("watchdog device: empty value");
    }
    let timeout = duration::parse(view.get("timeout").text()).unwrap_or(0);
    report.check(
        timeout == 0 || timeout >= MIN_WATCHDOG_TIMEOUT,
        "watchdog timeout: minimum value is 10s",
    );
}
