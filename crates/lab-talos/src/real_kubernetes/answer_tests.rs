//! Invalid requests that are sent to the simulated and to a real API server. Both answers must be equal.
//!
//! The tests compare common errors: names, labels, selectors, options, patches, unknown fields, rejected pods, namespaces that
//! cannot be deleted, and invalid custom objects. They do not compare errors that the lab intentionally does not detect: values
//! inside specs, and the details of JSON syntax errors.

use serde_json::Value;
use talmox_lab_kube::KubeStore;
use talmox_lab_kube::ask;
use talmox_lab_kube::object::text;
use talmox_talos_config::generate::Role;

use super::client::Client;
use super::invalid_requests::{CUSTOM, FIELDS_OF, POD_SPECS, POOL};
use super::process::RealCluster;
use super::tests::{programs, until};
use crate::etcd;
use crate::test_bench::Bench;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BASE: &str = "/api/v1/namespaces/default/configmaps/base";
const POOLS: &str = "/apis/lab.example/v1/namespaces/default/pools";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

const LABELS: &[&str] = &[
    "a",
    "a=",
    "a==b",
    "!a",
    "a in (b",
    "a in (b,c)",
    "a in ()",
    "a in (,)",
    "a in (b,,c)",
    "a in (b c)",
    "a in (b=c)",
    "a in (=)",
    "a notin (b)",
    "=a",
    "a=b=c",
    "a,,b",
    "a=b c",
    "-a=b",
    "a=-b",
    "a>1",
    "a>x",
    "a<1",
    "a b",
    "(a)",
    "a in b",
    ",",
    "a!=b",
    "a!b",
    "!",
    "!a=b",
    "a=b,",
    "x/y/z=a",
    "in in (in)",
    "a=(",
    "!!a",
    "/a",
    "A.b/c",
];
const FIELDS: &[&str] = &[
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace=default",
    "foo=bar",
    "metadata.name",
    "metadata.name=a=b",
    "metadata.name in (a)",
    "=",
    "a",
    "metadata.name=a,foo=b",
    ",",
    "metadata.name=a\\",
    "metadata.name=a\\,b",
    "metadata.name=a\\b",
    "metadata.name==a",
];
const LISTS: &[&str] = &[
    "limit=x",
    "limit=-1",
    "resourceVersion=x",
    "timeoutSeconds=x",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=Foo&resourceVersion=1",
    "resourceVersion=0&resourceVersionMatch=Exact",
];
/// Metadata of ConfigMaps that the tests create.
const METADATA: &[&str] = &[
    r#"{"name":"Bad"}"#,
    r#"{"name":"a_b"}"#,
    r#"{"name":"-a"}"#,
    r#"{"name":"a."}"#,
    r#"{"name":""}"#,
    "{}",
    r#"{"name":"base"}"#,
    r#"{"name":1}"#,
    r#""x""#,
    r#"{"name":"a","namespace":"other"}"#,
    r#"{"name":"l","labels":[]}"#,
    r#"{"name":"l","labels":{"a":1}}"#,
    r#"{"name":"l","labels":{"a":true}}"#,
    r#"{"name":"l","labels":{"a b":"c"}}"#,
    r#"{"name":"l","labels":{"a":"b c"}}"#,
    r#"{"name":"l","labels":{"-a":"b"}}"#,
    r#"{"name":"l","labels":{"x/y/z":"a"}}"#,
    r#"{"name":"l","labels":{"A.com/a":"b"}}"#,
    r#"{"name":"l","labels":{"":"v"}}"#,
    r#"{"name":"l","labels":{"/a":"v"}}"#,
    r#"{"name":"l","labels":{"a/":"v"}}"#,
    r#"{"name":"l","labels":{"c d":"e f"}}"#,
    r#"{"name":"l","annotations":{"a b":"c"}}"#,
    r#"{"name":"l","annotations":{"a":1}}"#,
    r#"{"name":"l","finalizers":"x"}"#,
];
/// Invalid requests: method, path, content type and body.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    ("GET", "/api/v1/foos", JSON, ""),
    ("GET", "/api/v1/namespaces/default/nodes", JSON, ""),
    ("GET", "/api/v1/nodes/nope", JSON, ""),
    ("GET", "/api/v1/namespaces/nowhere", JSON, ""),
    ("GET", "/api/v1/namespaces/default/configmaps/base/status", JSON, ""),
    ("GET", "/apis/apps/v1/namespaces/default/deployments/web/nope", JSON, ""),
    ("POST", "/api/v1/configmaps", JSON, r#"{"metadata":{"name":"a"}}"#),
    ("POST", "/api/v1/namespaces/nowhere/configmaps", JSON, r#"{"metadata":{"name":"a"}}"#),
    ("POST", BASE, JSON, r#"{"metadata":{"name":"a"}}"#),
    ("PUT", MAPS, JSON, r#"{"metadata":{"name":"a"}}"#),
    ("DELETE", "/api/v1/namespaces/default/configmaps/nope", JSON, ""),
    ("POST", MAPS, "text/plain", "{}"),
    ("POST", MAPS, JSON, r#"{"metadata":{"name":"l"},"data":[1]}"#),
    (
        "POST",
        "/api/v1/namespaces/default/configmaps?dryRun=Some",
        JSON,
        r#"{"metadata":{"name":"u"}}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces/default/configmaps?fieldValidation=Nope",
        JSON,
        r#"{"metadata":{"name":"u"}}"#,
    ),
    ("POST", "/api/v1/namespaces", JSON, r#"{"metadata":{"name":"a.b"}}"#),
    ("POST", "/api/v1/namespaces", JSON, r#"{"metadata":{"name":"A"}}"#),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        JSON,
        r#"{"metadata":{"name":"1a"},"spec":{"ports":[{"port":80}]}}"#,
    ),
    (
        "POST",
        "/api/v1/namespaces/default/services",
        JSON,
        r#"{"metadata":{"name":"a.b"},"spec":{"ports":[{"port":80}]}}"#,
    ),
    ("PUT", BASE, JSON, r#"{"metadata":{"name":"other"}}"#),
    ("PUT", BASE, JSON, r#"{"metadata":{}}"#),
    ("PUT", BASE, JSON, r#"{"metadata":{"name":"base","namespace":"x"}}"#),
    ("PUT", BASE, JSON, r#"{"metadata":{"name":"base","resourceVersion":"1"}}"#),
    ("PATCH", BASE, JSON, "{}"),
    ("PATCH", BASE, MERGE, "[]"),
    ("PATCH", BASE, STRATEGIC, "[]"),
    ("PATCH", BASE, MERGE, r#"{"metadata":{"name":"x"}}"#),
    ("PATCH", BASE, MERGE, r#"{"metadata":{"labels":{"a b":"c"}}}"#),
    ("PATCH", BASE, MERGE, r#"{"metadata":{"resourceVersion":"1"}}"#),
    ("PATCH", BASE, STRATEGIC, r#"{"metadata":{"labels":{"a":"-"}}}"#),
    ("PATCH", "/api/v1/namespaces/default/configmaps/nope", MERGE, "{}"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/base?force=true", MERGE, "{}"),
    ("PATCH", BASE, PATCH, "{}"),
    ("PATCH", BASE, PATCH, "[{}]"),
    ("PATCH", BASE, PATCH, r#"[{"op":"x","path":"/a"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"remove","path":"/data/nope"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"test","path":"/data/k","value":"w"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"add","path":"/nope/deep","value":"w"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"move","from":"/data/x","path":"/data/y"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"replace","path":"/metadata/name","value":"y"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"add","path":"/metadata/labels/a b","value":"w"}]"#),
    ("PATCH", BASE, PATCH, r#"[{"op":"replace","path":"/data/new","value":"x"}]"#),
    ("PATCH", BASE, APPLY, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"base"}}"#),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/base?fieldManager=m",
        APPLY,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"base"},"data":{"k":"other"}}"#,
    ),
    ("DELETE", "/api/v1/namespaces/default", JSON, ""),
    ("DELETE", "/api/v1/namespaces/kube-public", JSON, r#"{"propagationPolicy":"Foreground"}"#),
    ("DELETE", "/api/v1/namespaces/kube-system", JSON, ""),
    ("DELETE", "/api/v1/namespaces/kube-system?dryRun=All", JSON, ""),
    ("DELETE", "/api/v1/namespaces/kube-node-lease?dryRun=All", JSON, ""),
    ("DELETE", "/api/v1/namespaces", JSON, ""),
    ("DELETE", "/api/v1/namespaces?labelSelector=a", JSON, ""),
    ("DELETE", BASE, JSON, r#"{"propagationPolicy":"Nope"}"#),
    ("DELETE", BASE, JSON, r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#),
    ("DELETE", "/api/v1/namespaces/default/configmaps/base?dryRun=Nope", JSON, ""),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/web/scale",
        MERGE,
        r#"{"spec":{"replicas":-1}}"#,
    ),
    ("GET", "/apis/apps/v1/namespaces/default/deployments?fieldSelector=x%3Dy", JSON, ""),
    ("GET", "/api/v1/nodes?fieldSelector=spec.foo%3D1", JSON, ""),
];

/// Percent-encodes a text for a query. Letters, digits and dots stay unchanged.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

fn cases() -> Vec<Case> {
    let list = |query: String| ("GET", format!("{MAPS}?{query}"), JSON, String::new());
    let labels = LABELS.iter().map(|text| list(format!("labelSelector={}", encoded(text))));
    let fields = FIELDS.iter().map(|text| list(format!("fieldSelector={}", encoded(text))));
    let lists = LISTS.iter().map(|text| list((*text).to_owned()));
    let made = METADATA
        .iter()
        .map(|text| ("POST", MAPS.to_owned(), JSON, format!("{{\"metadata\":{text}}}")));
    let others = OTHERS.iter().map(|(method, path, media, body)| {
        (*method, (*path).to_owned(), *media, (*body).to_owned())
    });
    let dry = "dryRun=All&fieldValidation=Strict";
    let pods = POD_SPECS.iter().flat_map(|(space, spec)| {
        let path = format!("/api/v1/namespaces/{space}/pods?{dry}");
        let body = format!("{{\"metadata\":{{\"name\":\"p\"}},\"spec\":{spec}}}");
        let template = format!(
            "{{\"metadata\":{{\"name\":\"d\"}},\"spec\":{{\"selector\":{{\"matchLabels\":{{\"a\":\"b\"}}}},\"template\":{{\"metadata\":{{\"labels\":{{\"a\":\"b\"}}}},\"spec\":{spec}}}}}}}"
        );
        let sets = format!("/apis/apps/v1/namespaces/{space}/daemonsets?{dry}");
        [("POST", path, JSON, body), ("POST", sets, JSON, template)]
    });
    let unknown = FIELDS_OF.iter().flat_map(|(method, path, media, body)| {
        let sign = if path.contains('?') { "&" } else { "?" };
        ["Strict", "Warn", "Ignore"].map(|how| {
            let path = format!("{path}{sign}dryRun=All&fieldValidation={how}");
            (*method, path, *media, (*body).to_owned())
        })
    });
    let pools = CUSTOM.iter().flat_map(|spec| {
        let body = format!(
            "{{\"apiVersion\":\"lab.example/v1\",\"kind\":\"Pool\",\"metadata\":{{\"name\":\"a\"}},{spec}}}"
        );
        ["Strict", "Warn"].map(|how| {
            let path = format!("{POOLS}?dryRun=All&fieldValidation={how}");
            ("POST", path, JSON, body.clone())
        })
    });
    let more = pods.chain(unknown).chain(pools);
    labels.chain(fields).chain(lists).chain(made).chain(others).chain(more).collect()
}

/// Status, reason, message and warnings of an answer. For a successful request, reason and message are empty.
type AnswerSummary = (u16, String, String, Vec<String>);

fn summary(status: u16, body: &Value, warnings: Vec<String>) -> AnswerSummary {
    if status < 400 {
        return (status, String::new(), String::new(), warnings);
    }
    (status, text(body, "/reason").to_owned(), text(body, "/message").to_owned(), warnings)
}

type Case = (&'static str, String, &'static str, String);

async fn of_real(client: &mut Client, case: &Case) -> AnswerSummary {
    let (method, path, media, body) = case;
    let answer = client.send_body(method, path, media, body.clone()).await.unwrap();
    summary(answer.status, &answer.body, answer.warnings)
}

fn of_lab(store: &KubeStore, case: &Case) -> AnswerSummary {
    let (method, path, media, body) = case;
    let (status, body, warnings) = ask(store, method, path, media, body);
    let warnings = warnings.iter().map(|text| format!("299 - {}", Value::from(text.as_str())));
    summary(status, &body, warnings.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_answered_like_a_real_api_server() {
    let Some(programs) = programs() else { return };
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    let store = bench.store_of(11);
    let config = bench.config(&bench.bundle, Role::ControlPlane, |_| {});
    let cluster = RealCluster::start(&programs, &config.facts, &["10.0.0.11".to_owned()].into());
    let cluster = cluster.unwrap();
    let mut client = Client::new(&cluster).unwrap();
    for space in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        until(&mut client, &format!("/api/v1/namespaces/{space}"), |_| true).await;
    }

    let map = r#"{"metadata":{"name":"base","labels":{"a":"b"}},"data":{"k":"v"}}"#;
    let web = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"x:1"}]}}}}"#;
    store.admit_pods_by(&config.facts.admission_control, "v1.34.1");
    let strict = r#"{"metadata":{"name":"strict","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}"#;
    let account = r#"{"metadata":{"name":"default"}}"#;
    let accounts = ["default", "strict", "kube-system"]
        .map(|space| format!("/api/v1/namespaces/{space}/serviceaccounts"));
    let begin = [
        (MAPS, map),
        (WEB.trim_end_matches("/web"), web),
        (DEFINITIONS, POOL),
        ("/api/v1/namespaces", strict),
    ];
    let accounts = accounts.iter().map(|path| (path.as_str(), account));
    for (path, body) in begin.into_iter().chain(accounts) {
        let case = ("POST", path.to_owned(), JSON, body.to_owned());
        let simulated = of_lab(&store, &case).0;
        assert!(matches!(simulated, 201 | 409), "{path}: {simulated}");
        assert_eq!(of_real(&mut client, &case).await.0, 201, "{path}");
    }
    until(&mut client, POOLS, |_| true).await;
    let mut different = vec![];
    for case in cases() {
        let (simulated, real_answer) = (of_lab(&store, &case), of_real(&mut client, &case).await);
        if simulated != real_answer {
            different.push(format!("{case:?}\n  lab  {simulated:?}\n  real {real_answer:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
