//! Tests of create, read, update, patch and delete.

use serde_json::{Value, json};

use super::cluster::{Cluster, deployment};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_created_read_updated_and_deleted() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let made =
        admin.post(MAPS, &json!({"metadata": {"generateName": "map-"}, "data": {"a": "1"}})).await;
    assert_eq!(made.status, 201);
    let name = made.body["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("map-") && name.len() == 9, "{name}");
    assert_eq!(made.body["kind"], "ConfigMap");
    assert_eq!(made.body["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(made.body["metadata"]["creationTimestamp"].as_str().unwrap().ends_with('Z'));

    let path = format!("{MAPS}/{name}");
    let again = admin.post(MAPS, &made.body).await;
    assert_eq!((again.status, &again.body["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(again.body["message"], format!("configmaps \"{name}\" already exists"));

    let mut changed = made.body.clone();
    changed["data"]["a"] = "2".into();
    let updated = admin.put(&path, &changed).await;
    assert_eq!((updated.status, &updated.body["data"]["a"]), (200, &json!("2")));
    let stale = admin.put(&path, &changed).await;
    assert_eq!((stale.status, &stale.body["reason"]), (409, &json!("Conflict")));
    assert!(stale.body["message"].as_str().unwrap().contains("the object has been modified"));
    let same = admin.put(&path, &updated.body).await;
    assert_eq!(
        same.body["metadata"]["resourceVersion"],
        updated.body["metadata"]["resourceVersion"]
    );

    let deleted = admin.delete(&path).await;
    assert_eq!((deleted.status, &deleted.body["status"]), (200, &json!("Success")));
    let gone = admin.get(&path).await;
    assert_eq!(gone.status, 404);
    assert_eq!(gone.body["message"], format!("configmaps \"{name}\" not found"));
    assert_eq!(gone.body["details"], json!({"name": name, "kind": "configmaps"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_requests_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let large = "a".repeat(5 << 20);
    let map = json!({"metadata": {"name": "large"}, "data": {"a": large}});
    let rejected = admin.post(MAPS, &map).await;
    assert_eq!((rejected.status, &rejected.body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_scale_by_the_paths_of_their_definition() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/lab.example/v1/namespaces/default/widgets";
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let scale = json!({"specReplicasPath": ".spec.size.wanted", "statusReplicasPath": ".status.n"});
    let definition = json!({
        "metadata": {"name": "widgets.lab.example"},
        "spec": {
            "group": "lab.example",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"scale": scale},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    assert_eq!(admin.post(DEFINITIONS, &definition).await.status, 201);
    let widget = json!({"metadata": {"name": "w"}, "spec": {"size": {"wanted": 2}}});
    assert_eq!(admin.post(WIDGETS, &widget).await.status, 201);
    let path = format!("{WIDGETS}/w/scale");
    assert_eq!(admin.get(&path).await.body["spec"]["replicas"], 2);
    let five = json!({"spec": {"replicas": 5}});
    let scaled = admin.patch(&path, "application/merge-patch+json", &five).await;
    assert_eq!((scaled.status, &scaled.body["spec"]["replicas"]), (200, &json!(5)));
    let spec = &admin.get(&format!("{WIDGETS}/w")).await.body["spec"];
    assert_eq!(*spec, json!({"size": {"wanted": 5}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_labels_and_selectors_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let map =
        |what: &str, key: &str, value: &str| json!({"metadata": {"name": "a", what: {key: value}}});
    for (what, key, value, part) in [
        (
            "labels",
            "a b",
            "1",
            "metadata.labels: Invalid value: \"a b\": name part must consist of",
        ),
        ("labels", "/a", "1", "prefix part must be non-empty"),
        ("labels", "Ex.com/a", "1", "prefix part a lowercase RFC 1123 subdomain"),
        ("labels", "a", "no way", "Invalid value: \"no way\": a valid label must be"),
        ("annotations", "a/b/c", "1", "metadata.annotations: Invalid value: \"a/b/c\""),
        ("annotations", "a", &"x".repeat(300_000), "may not be more than 262144 bytes"),
    ] {
        let rejected = admin.post(MAPS, &map(what, key, value)).await;
        assert_eq!((rejected.status, &rejected.body["reason"]), (422, &json!("Invalid")), "{key}");
        let message = rejected.body["message"].as_str().unwrap();
        assert!(
            message.starts_with("ConfigMap \"a\" is invalid") && message.contains(part),
            "{message}"
        );
    }
    let fine = map("annotations", "Ex.com/What", "any text, really");
    assert_eq!(admin.post(MAPS, &fine).await.status, 201);
    let patched = json!({"metadata": {"labels": {"-a": "1"}}});
    assert_eq!(admin.patch(&format!("{MAPS}/a"), "merge-patch+json", &patched).await.status, 422);

    let space = |level: &str| json!({"metadata": {"name": "s", "labels": {"pod-security.kubernetes.io/enforce": level}}});
    let rejected = admin.post("/api/v1/namespaces", &space("lax")).await;
    assert_eq!(rejected.status, 422);
    assert_eq!(
        rejected.body["message"],
        "Namespace \"s\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: \
         Invalid value: \"lax\": must be one of privileged, baseline, restricted"
    );
    assert_eq!(admin.post("/api/v1/namespaces", &space("privileged")).await.status, 201);

    for (path, message) in [
        ("/api/v1/pods?fieldSelector=spec.foo%3Dbar", "field label not supported: spec.foo"),
        (
            "/apis/apps/v1/deployments?fieldSelector=spec.replicas%3D1",
            "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ] {
        let rejected = admin.get(path).await;
        assert_eq!(
            (rejected.status, &rejected.body["reason"]),
            (400, &json!("BadRequest")),
            "{path}"
        );
        assert_eq!(rejected.body["message"], message);
    }
    assert_eq!(admin.get("/api/v1/pods?fieldSelector=spec.nodeName%3Da").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_objects_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let map = json!({"metadata": {"name": "a"}});
    let nowhere = admin.post("/api/v1/namespaces/none/configmaps", &map).await;
    assert_eq!(
        (nowhere.status, &nowhere.body["message"]),
        (404, &json!("namespaces \"none\" not found"))
    );
    let bad_name = admin.post(MAPS, &json!({"metadata": {"name": "A_b"}})).await;
    assert_eq!((bad_name.status, &bad_name.body["reason"]), (422, &json!("Invalid")));
    let no_name = admin.post(MAPS, &json!({})).await;
    assert_eq!(no_name.status, 422);
    let other = admin.post(MAPS, &json!({"kind": "Secret", "metadata": {"name": "a"}})).await;
    assert_eq!(other.status, 400);
    let mut lost = deployment("web", 1, "web:1");
    lost["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
    let lost = admin.post("/apis/apps/v1/namespaces/default/deployments", &lost).await;
    assert_eq!(lost.status, 422);
    assert!(
        lost.body["message"].as_str().unwrap().starts_with("Deployment.apps \"web\" is invalid")
    );
    let strange = admin.patch(&format!("{MAPS}/a"), "json", &json!({})).await;
    assert_eq!(strange.status, 415);
    assert_eq!(admin.ask("PUT", MAPS, &[], &json!({})).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_support_selectors_and_pagination() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    for at in 0..5 {
        let color = if at % 2 == 0 { "red" } else { "blue" };
        let map = json!({"metadata": {"name": format!("m{at}"), "labels": {"color": color}}});
        admin.post(MAPS, &map).await;
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let red = admin.get(&format!("{MAPS}?labelSelector=color%3Dred")).await.body;
    assert_eq!(red["kind"], "ConfigMapList");
    assert_eq!(names(&red), ["m0", "m2", "m4"]);
    let one = admin.get(&format!("{MAPS}?fieldSelector=metadata.name%3Dm3")).await.body;
    assert_eq!(names(&one), ["m3"]);
    let selected = format!("{MAPS}?labelSelector=color&limit=2");
    let first = admin.get(&selected).await.body;
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = admin.get(&format!("{selected}&continue={token}")).await.body;
    assert_eq!(names(&second), ["m2", "m3"]);
    let deleted = admin.delete(&format!("{MAPS}?labelSelector=color%3Dred")).await;
    assert_eq!(names(&deleted.body), ["m0", "m2", "m4"]);
    assert_eq!(names(&admin.get(&format!("{MAPS}?labelSelector=color")).await.body), ["m1", "m3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_patch_type_changes_a_part_of_an_object() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let web = format!("{all}/web");
    let made = admin.post(all, &deployment("web", 1, "web:1")).await;
    assert_eq!(made.body["metadata"]["generation"], 1);
    let merged =
        admin.patch(&web, "merge-patch+json", &json!({"metadata": {"labels": {"a": "1"}}})).await;
    assert_eq!(merged.body["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(merged.body["metadata"]["generation"], 1);
    let container = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    let strategic = admin.patch(&web, "strategic-merge-patch+json", &container).await;
    assert_eq!(strategic.body["metadata"]["generation"], 2);
    let containers = &strategic.body["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (&containers[0]["image"], containers.as_array().unwrap().len()),
        (&json!("web:2"), 1)
    );
    let steps = json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]);
    assert_eq!(admin.patch(&web, "json-patch+json", &steps).await.body["spec"]["replicas"], 3);
    let status = json!({"spec": {"replicas": 9}, "status": {"observedGeneration": 77}});
    let answer = admin.patch(&format!("{web}/status"), "merge-patch+json", &status).await;
    assert_eq!(answer.body["spec"]["replicas"], 3);
    assert_eq!(answer.body["status"]["observedGeneration"], 77);
    let fixed = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    assert_eq!(admin.patch(&web, "merge-patch+json", &fixed).await.status, 422);
    let dry = admin
        .patch(&format!("{web}?dryRun=All"), "merge-patch+json", &json!({"spec": {"replicas": 5}}))
        .await;
    assert_eq!(dry.body["spec"]["replicas"], 5);
    assert_eq!(admin.get(&web).await.body["spec"]["replicas"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_creates_merges_and_detects_conflicts() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let path = |manager: &str| format!("{MAPS}/conf?fieldManager={manager}");
    let config = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": data});
    let kind = "apply-patch+yaml";
    let made = admin.patch(&path("one"), kind, &config(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.body["metadata"]["managedFields"][0]["operation"], "Apply");
    let again = admin.patch(&path("one"), kind, &config(json!({"a": "1", "b": "1"}))).await;
    assert_eq!(again.body["metadata"]["resourceVersion"], made.body["metadata"]["resourceVersion"]);
    let clash = admin.patch(&path("two"), kind, &config(json!({"a": "2"}))).await;
    assert_eq!(clash.status, 409);
    assert_eq!(
        clash.body["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .data.a"
    );
    let forced =
        admin.patch(&format!("{}&force=true", path("two")), kind, &config(json!({"a": "2"}))).await;
    assert_eq!(forced.body["data"], json!({"a": "2", "b": "1"}));
    let less = admin.patch(&path("one"), kind, &config(json!({}))).await;
    assert_eq!(less.body["data"], json!({"a": "2"}));
    let without_manager = admin.patch(&format!("{MAPS}/conf"), kind, &config(json!({}))).await;
    assert_eq!(without_manager.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resource_definitions_add_and_remove_kinds() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let definition = json!({
        "metadata": {"name": "pools.lab.example"},
        "spec": {
            "group": "lab.example",
            "scope": "Namespaced",
            "names": {"plural": "pools", "kind": "Pool", "shortNames": ["po2"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let pools = "/apis/lab.example/v1/namespaces/default/pools";
    assert_eq!(admin.get(pools).await.status, 404);
    let made = admin.post(definitions, &definition).await;
    assert_eq!(made.status, 201);
    assert!(super::cluster::is_true(&made.body, "Established"), "{}", made.body);
    let pool = json!({
        "apiVersion": "lab.example/v1",
        "kind": "Pool",
        "metadata": {"name": "a", "finalizers": ["lab.example/hold"]},
        "spec": {"size": 3},
        "status": {"ignored": true},
    });
    let made = admin.post(pools, &pool).await;
    assert_eq!((made.status, made.body.get("status")), (201, None));
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = admin.ask("GET", pools, &[("Accept", accept)], &Value::Null).await.body;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));
    // Unknown fields are removed, and invalid values are rejected.
    let more = json!({"spec": {"size": 4, "colour": "red"}});
    let patched = admin.patch(&format!("{pools}/a"), "merge-patch+json", &more).await;
    assert_eq!((patched.status, &patched.body["spec"]), (200, &json!({"size": 4})));
    assert_eq!(patched.warnings, ["299 - \"unknown field \\\"spec.colour\\\"\""]);
    let strict = format!("{pools}/a?fieldValidation=Strict");
    assert_eq!(admin.patch(&strict, "merge-patch+json", &more).await.status, 422);
    let type_mismatch = json!({"spec": {"size": "large"}});
    let rejected = admin.patch(&format!("{pools}/a"), "merge-patch+json", &type_mismatch).await;
    assert_eq!(
        rejected.body["message"],
        "Pool.lab.example \"a\" is invalid: spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""
    );
    let going = admin.delete(&format!("{pools}/a")).await;
    assert!(going.body["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(admin.get(&format!("{pools}/a")).await.status, 200);
    let release = json!({"metadata": {"finalizers": null}});
    admin.patch(&format!("{pools}/a"), "merge-patch+json", &release).await;
    assert_eq!(admin.get(&format!("{pools}/a")).await.status, 404);
    assert_eq!(admin.delete(&format!("{definitions}/pools.lab.example")).await.status, 200);
    assert_eq!(admin.get(pools).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_wrong_types_are_rejected_without_side_effects() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let mut admin = cluster.admin().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    for strange in [json!(1), json!("text"), json!([1]), json!(true)] {
        for pointer in [
            "/spec",
            "/spec/template",
            "/spec/template/spec",
            "/spec/template/spec/containers",
            "/spec/template/metadata/labels",
            "/spec/selector",
            "/spec/selector/matchLabels",
        ] {
            let mut body = deployment("odd", 1, "web:1");
            *body.pointer_mut(pointer).unwrap() = strange.clone();
            let answer = admin.post(all, &body).await;
            assert!(matches!(answer.status, 400 | 422), "{pointer} {strange}: {}", answer.body);
        }
        assert_eq!(admin.post(all, &strange).await.status, 400);
        for key in ["replicas", "revisionHistoryLimit", "paused", "minReadySeconds"] {
            let mut body = deployment(&format!("odd-{}", key.to_lowercase()), 1, "web:1");
            body["spec"][key] = strange.clone();
            admin.post(all, &body).await;
        }
        for patch in
            [json!({"status": strange}), json!({"metadata": {"labels": strange}}), strange.clone()]
        {
            let answer = admin.patch("/api/v1/nodes/w-1/status", "merge-patch+json", &patch).await;
            assert!(matches!(answer.status, 400 | 422), "{patch}: {}", answer.body);
        }
        let conditions =
            json!({"status": {"conditions": strange, "addresses": strange, "capacity": strange}});
        admin.patch("/api/v1/nodes/w-1/status", "merge-patch+json", &conditions).await;
        let taints = json!({"spec": {"taints": strange, "unschedulable": strange}});
        admin.patch("/api/v1/nodes/w-1", "merge-patch+json", &taints).await;
    }
    cluster.assert_idle().await;
    assert_eq!(admin.get("/api/v1/nodes/w-1").await.status, 200);
}
