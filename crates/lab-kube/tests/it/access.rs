//! Tests of authentication, authorization and discovery.

use serde_json::{Value, json};

use super::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_client_certificate_of_the_cluster_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    let mut anonymous = cluster.connect(None).await;
    for path in ["/healthz", "/version", "/api/v1/nodes"] {
        let answer = anonymous.get(path).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (401, &json!("Unauthorized")),
            "{path}"
        );
    }
    let other = Cluster::start(&[]).await;
    let foreign_certificate = other.certificate("admin", &["system:masters"]);
    let answer = cluster.connect(Some(foreign_certificate)).await.get("/api/v1/nodes").await;
    assert_eq!(answer.status, 401);
    assert_eq!(cluster.admin().await.get("/api/v1/nodes").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn rbac_roles_grant_access() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let mut jane = cluster.connect(Some(cluster.certificate("jane", &["dev"]))).await;
    let rejected = jane.get("/api/v1/namespaces/default/pods").await;
    assert_eq!(rejected.status, 403);
    assert_eq!(
        rejected.body["message"],
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(jane.get("/version").await.status, 200);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = json!({
        "metadata": {"name": "dev"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "dev"}],
    });
    let made = admin.post(&format!("{rbac}/namespaces/default/rolebindings"), &binding).await;
    assert_eq!(made.status, 201);
    assert_eq!(jane.get("/api/v1/namespaces/default/pods").await.status, 200);
    assert_eq!(jane.get("/api/v1/namespaces/kube-system/pods").await.status, 403);
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(jane.post("/api/v1/namespaces/default/configmaps", &map).await.status, 403);
    let review = json!({
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(jane.post(path, &review).await.body["status"]["allowed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_needs_permission_and_uses_the_rights_of_the_impersonated_user() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let mut jane = cluster.connect(Some(cluster.certificate("jane", &["dev"]))).await;
    let as_other_user = [("Impersonate-User", "nobody")];
    let rejected = jane.ask("GET", "/api/v1/nodes", &as_other_user, &Value::Null).await;
    assert_eq!(rejected.status, 403);
    assert_eq!(
        rejected.body["message"],
        "users \"nobody\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    assert_eq!(rejected.body["details"], json!({"name": "nobody", "kind": "users"}));
    let rejected = admin.ask("GET", "/api/v1/nodes", &as_other_user, &Value::Null).await;
    assert_eq!(rejected.status, 403);
    let message = rejected.body["message"].as_str().unwrap();
    assert!(message.starts_with("nodes is forbidden: User \"nobody\" cannot list"), "{message}");
    let with_group = [("Impersonate-User", "nobody"), ("Impersonate-Group", "system:masters")];
    let listed = admin.ask("GET", "/api/v1/nodes", &with_group, &Value::Null).await;
    assert_eq!(listed.status, 200);
    let only_group = [("Impersonate-Group", "system:masters")];
    let failed = admin.ask("GET", "/api/v1/nodes", &only_group, &Value::Null).await;
    assert_eq!(failed.status, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_token_can_request_a_kubelet_certificate() {
    let cluster = Cluster::start(&[]).await;
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
    });
    cluster.store.create("secrets", secret).unwrap();
    let mut kubelet = cluster.connect(None).await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    kubelet.token = Some("abcdef.0123456789abcdef".to_owned());
    assert_eq!(kubelet.get(path).await.status, 200);
    assert_eq!(kubelet.get("/api/v1/secrets").await.status, 403);
    kubelet.token = Some("abcdef.wrong".to_owned());
    assert_eq!(kubelet.get(path).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_works_in_aggregated_and_legacy_form() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    assert_eq!(admin.get("/version").await.body["gitVersion"], "v1.32.4");
    assert_eq!(admin.get("/readyz").await.body, "ok");
    assert_eq!(admin.get("/api").await.body["versions"], json!(["v1"]));
    let resources = admin.get("/api/v1").await.body;
    let of = |name: &str| {
        let all = resources["resources"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).cloned().unwrap()
    };
    assert_eq!(of("nodes")["namespaced"], false);
    assert_eq!(of("pods")["shortNames"], json!(["po"]));
    assert_eq!(of("pods/eviction")["group"], "policy");
    let groups = admin.get("/apis").await.body;
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps"));
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let all = admin.ask("GET", "/apis", &[("Accept", accept)], &Value::Null).await;
    assert!(all.content_type.contains("as=APIGroupDiscoveryList"), "{}", all.content_type);
    assert_eq!(all.body["kind"], "APIGroupDiscoveryList");
    assert_eq!(admin.get("/apis/none/v1").await.status, 404);
    assert_eq!(admin.get("/api/v1/nothings").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_listeners_serve_one_cluster_and_stop_independently() {
    let cluster = Cluster::start(&[]).await;
    let (address, server) = cluster.listen().await;
    let identity = cluster.certificate("admin", &["system:masters"]);
    let mut second = cluster.connect_to(address, Some(identity)).await;
    let map = json!({"metadata": {"name": "shared"}});
    assert_eq!(second.post("/api/v1/namespaces/default/configmaps", &map).await.status, 201);
    assert_eq!(second.get("/version").await.body["gitVersion"], "v1.33.0");
    cluster.store.set_api_addresses(&["10.0.0.11", "10.0.0.12"]);
    let endpoints = second.get("/api/v1/namespaces/default/endpoints/kubernetes").await.body;
    assert_eq!(endpoints["subsets"][0]["addresses"][1]["ip"], "10.0.0.12");
    cluster.store.set_api_addresses(&["10.0.0.11"]);
    let endpoints = second.get("/api/v1/namespaces/default/endpoints/kubernetes").await.body;
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "10.0.0.11"}]));
    server.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    let mut first = cluster.admin().await;
    assert_eq!(first.get("/api/v1/namespaces/default/configmaps/shared").await.status, 200);
}
