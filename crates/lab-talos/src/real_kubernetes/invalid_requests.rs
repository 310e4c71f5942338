//! Invalid pods, fields and custom objects.

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BASE: &str = "/api/v1/namespaces/default/configmaps/base";
const BASE_APPLIED: &str = "/api/v1/namespaces/default/configmaps/base?fieldManager=m";
const WEBS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const WEB_APPLIED: &str = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=m";

/// Specs for pods and pod templates, each with the namespace to create it in.
pub(super) const POD_SPECS: &[(&str, &str)] = &[
    ("default", r#"{"containers":[{"name":"a","image":"x:1"}]}"#),
    ("strict", r#"{"containers":[{"name":"a","image":"x:1"},{"name":"b","image":"x:1"}]}"#),
    ("kube-system", r#"{"hostPID":true,"containers":[{"name":"a","image":"x:1"}]}"#),
    (
        "default",
        r#"{"hostNetwork":true,"hostPID":true,"hostIPC":true,"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "default",
        r#"{"containers":[{"name":"a","image":"x:1","securityContext":{"privileged":true}}]}"#,
    ),
    (
        "default",
        r#"{"initContainers":[{"name":"i","image":"x:1","securityContext":{"privileged":true}}],"containers":[{"name":"a","image":"x:1","securityContext":{"privileged":true}}]}"#,
    ),
    (
        "default",
        r#"{"volumes":[{"name":"v","hostPath":{"path":"/x"}}],"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "strict",
        r#"{"volumes":[{"name":"v","nfs":{"server":"s","path":"/"}},{"name":"w","hostPath":{"path":"/y"}},{"name":"e","emptyDir":{}},{"name":"u"}],"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "default",
        r#"{"containers":[{"name":"b","image":"x:1","ports":[{"containerPort":80,"hostPort":9}]},{"name":"a","image":"x:1","ports":[{"containerPort":80,"hostPort":10}]}]}"#,
    ),
    (
        "default",
        r#"{"containers":[{"name":"a","image":"x:1","securityContext":{"capabilities":{"add":["SYS_TIME","NET_ADMIN","CHOWN"]}}}]}"#,
    ),
    (
        "strict",
        r#"{"containers":[{"name":"a","image":"x:1","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"],"add":["CHOWN"]}}},{"name":"b","image":"x:1","securityContext":{"capabilities":{"drop":["all"]}}}]}"#,
    ),
    (
        "default",
        r#"{"securityContext":{"seLinuxOptions":{"type":"foo","user":"u"}},"containers":[{"name":"a","image":"x:1","securityContext":{"seLinuxOptions":{"role":"r","type":"bar"}}}]}"#,
    ),
    (
        "default",
        r#"{"securityContext":{"seccompProfile":{"type":"Unconfined"},"appArmorProfile":{"type":"Unconfined"}},"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "strict",
        r#"{"securityContext":{"seccompProfile":{"type":"Unconfined"}},"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "default",
        r#"{"hostUsers":false,"containers":[{"name":"a","image":"x:1","securityContext":{"procMount":"Unmasked"}}]}"#,
    ),
    (
        "default",
        r#"{"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"},{"name":"net.ipv4.tcp_rmem","value":"1"}]},"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "default",
        r#"{"hostNetwork":true,"securityContext":{"windowsOptions":{"hostProcess":true}},"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    (
        "default",
        r#"{"containers":[{"name":"a","image":"x:1","livenessProbe":{"httpGet":{"host":"z","port":80}}},{"name":"b","image":"x:1","readinessProbe":{"tcpSocket":{"host":"y","port":80}}}]}"#,
    ),
    (
        "strict",
        r#"{"securityContext":{"runAsUser":0,"runAsNonRoot":false},"containers":[{"name":"a","image":"x:1","securityContext":{"runAsUser":0}},{"name":"b","image":"x:1","securityContext":{"runAsNonRoot":false}}]}"#,
    ),
    (
        "strict",
        r#"{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"a","image":"x:1","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}"#,
    ),
    ("strict", r#"{"os":{"name":"windows"},"containers":[{"name":"a","image":"x:1"}]}"#),
    (
        "default",
        r#"{"serviceAccountName":"nope","hostPID":true,"containers":[{"name":"a","image":"x:1"}]}"#,
    ),
    ("default", r#"{"serviceAccount":"nope","containers":[{"name":"a","image":"x:1"}]}"#),
    ("default", r#"{"priorityClassName":"nope","containers":[{"name":"a","image":"x:1"}]}"#),
    ("default", r#"{"runtimeClassName":"nope","containers":[{"name":"a","image":"x:1"}]}"#),
    (
        "default",
        r#"{"containers":[{"name":"a","image":"x:1","img":"y","env":[{"nam":"b"}]}],"volume":[]}"#,
    ),
];

/// Requests with unknown or invalid fields: method, path, content type and body.
pub(super) const FIELDS_OF: &[(&str, &str, &str, &str)] = &[
    ("POST", MAPS, JSON, r#"{"metadata":{"name":"u","foo":1},"bar":{},"dat":{"a":"b"}}"#),
    (
        "POST",
        MAPS,
        JSON,
        r#"{"metadata":{"name":"u","labels":{"a":"b","a":"c"}},"data":{"x":"1","x":"2"},"data":{"y":"1"}}"#,
    ),
    ("POST", MAPS, JSON, r#"{"metadata":{"name":"u","foo":1},"data":{"x":"1","x":"2"},"bar":{}}"#),
    ("POST", "/api/v1/namespaces", JSON, r#"{"metadata":{"name":"u"},"status":{"foo":1}}"#),
    (
        "POST",
        WEBS,
        JSON,
        r#"{"metadata":{"name":"u"},"spec":{"Replicas":2,"replica":1,"selector":{"matchLabel":{},"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x","resources":{"limit":{}}}]}}},"foo":1}"#,
    ),
    ("PUT", BASE, JSON, r#"{"metadata":{"name":"base","x":1},"dat":{}}"#),
    (
        "PATCH",
        WEB,
        STRATEGIC,
        r#"{"spec":{"foo":1,"template":{"spec":{"containers":[{"name":"c","img":null}]}}}}"#,
    ),
    (
        "PATCH",
        WEB,
        STRATEGIC,
        r#"{"spec":{"foo":1,"template":{"spec":{"containers":[{"name":"c","img":"x"}]}}}}"#,
    ),
    (
        "PATCH",
        BASE_APPLIED,
        APPLY,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"base"},"foo":1}"#,
    ),
    (
        "PATCH",
        WEB_APPLIED,
        APPLY,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"template":{"spec":{"containers":[{"name":"c","ports":[{"containerPort":1,"p":1}]}]}}}}"#,
    ),
    (
        "PATCH",
        WEB_APPLIED,
        APPLY,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"tolerations":[{"kee":"a"}]}}}}"#,
    ),
    ("PATCH", BASE, MERGE, r#"{"metadata":{"labels":{"x":"y"}}}"#),
];

/// CustomResourceDefinition of the custom objects below.
pub(super) const POOL: &str = r#"{"metadata":{"name":"pools.lab.example"},"spec":{"group":"lab.example","scope":"Namespaced","names":{"plural":"pools","singular":"pool","kind":"Pool","listKind":"PoolList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],"properties":{"spec":{"type":"object","required":["size"],"properties":{"size":{"type":"integer","minimum":1,"maximum":10},"name":{"type":"string","minLength":2,"maxLength":5},"mode":{"type":"string","enum":["a","b"],"default":"a"},"level":{"type":"integer","enum":[1,2]},"flag":{"type":"boolean"},"list":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"n":{"type":"number"}}}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"map":{"type":"object","additionalProperties":{"type":"string"}},"either":{"x-kubernetes-int-or-string":true},"none":{"type":"string","nullable":true}}}}}}}]}}"#;

/// Custom objects, without the fields that all of them have.
pub(super) const CUSTOM: &[&str] = &[
    r#""spec":{"size":1}"#,
    r#""spec":{"size":1,"free":{"x":1},"map":{"y":"z"},"either":"5%","none":null,"flag":null,"list":[{"k":"a","n":1}]}"#,
    r#""other":1"#,
    r#""spec":{}"#,
    r#""spec":"x""#,
    r#""spec":{"size":"x"}"#,
    r#""spec":{"size":1.5}"#,
    r#""spec":{"size":0}"#,
    r#""spec":{"size":11}"#,
    r#""spec":{"size":1,"name":"a"}"#,
    r#""spec":{"size":1,"name":"abcdef"}"#,
    r#""spec":{"size":1,"mode":"z"}"#,
    r#""spec":{"size":1,"level":3}"#,
    r#""spec":{"size":1,"flag":"x"}"#,
    r#""spec":{"size":1,"list":{}}"#,
    r#""spec":{"size":1,"list":[]}"#,
    r#""spec":{"size":1,"list":[{}]}"#,
    r#""spec":{"size":1,"list":[{"k":"a"},{"k":"b"},{"k":"c"}]}"#,
    r#""spec":{"size":1,"list":[{"k":"a","n":"y"}]}"#,
    r#""spec":{"size":1,"map":{"a":1}}"#,
    r#""spec":{"size":1,"either":true}"#,
    r#""spec":{"size":1,"z":1,"list":[{"k":"a","z":1}]},"bar":1"#,
    r#""spec":{"size":1,"size":2}"#,
];
