//! `talmox plan`: exit codes, graphs and saved plans.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

const INVENTORY: &str = "inventory/dev/cluster.yaml";

#[track_caller]
fn fine(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

#[test]
fn the_exit_code_shows_whether_the_plan_has_changes() {
    let cluster = Cluster::of_one_node();
    assert_eq!(fine(cluster.run("plan --lab")).stderr.matches("executes this plan").count(), 1);
    for also in ["", "--format json", "--graph"] {
        let run = cluster.run(&format!("plan --lab --detailed-exitcode {also}"));
        assert_eq!(run.code, 2, "{also}: {}", run.stderr);
        assert!(!run.stdout.is_empty(), "{also}");
    }
}

#[test]
fn the_dot_graph_has_every_step_and_dependency() {
    let run = fine(Cluster::of_one_node().run("plan --lab --graph dot"));
    assert_snapshot!(run.stdout, @r#"
    digraph "dev" {
      rankdir=LR;
      node [shape=box];
      "schematic/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
      "image/pve/local/talos-v1.11.2-nocloud-amd64-376567988ad37013.qcow2";
      "schematic/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba" -> "image/pve/local/talos-v1.11.2-nocloud-amd64-376567988ad37013.qcow2";
      "vm/cp-1/upload-config";
      "vm/cp-1/create";
      "image/pve/local/talos-v1.11.2-nocloud-amd64-376567988ad37013.qcow2" -> "vm/cp-1/create";
      "vm/cp-1/upload-config" -> "vm/cp-1/create";
      "vm/cp-1/resize";
      "vm/cp-1/create" -> "vm/cp-1/resize";
      "vm/cp-1/scrub-config";
      "vm/cp-1/create" -> "vm/cp-1/scrub-config";
      "vm/cp-1/finish";
      "vm/cp-1/resize" -> "vm/cp-1/finish";
      "vm/cp-1/scrub-config" -> "vm/cp-1/finish";
      "vm/cp-1/start";
      "vm/cp-1/finish" -> "vm/cp-1/start";
      "talos/cp-1/apply";
      "vm/cp-1/start" -> "talos/cp-1/apply";
      "vm/cp-1/detach-config";
      "talos/cp-1/apply" -> "vm/cp-1/detach-config";
      "etcd/bootstrap";
      "talos/cp-1/apply" -> "etcd/bootstrap";
      "talos/cp-1/join";
      "etcd/bootstrap" -> "talos/cp-1/join";
      "talos/cp-1/apply" -> "talos/cp-1/join";
      "vip";
      "etcd/bootstrap" -> "vip";
      "kubeconfig";
      "talos/cp-1/join" -> "kubeconfig";
      "cluster/health";
      "talos/cp-1/join" -> "cluster/health";
      "vip" -> "cluster/health";
    }
    "#);
}

#[test]
fn the_svg_graph_has_every_step_and_dependency() {
    let cluster = Cluster::with_secrets();
    let plan = fine(cluster.run("plan --lab --format json")).stdout;
    let plan: Json = serde_json::from_str(&plan).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let name = |id: &Json| id.as_str().unwrap().chars().take(16).collect::<String>();
    let ids: BTreeSet<String> = steps.iter().map(|step| name(&step["id"])).collect();
    let waits: usize = steps.iter().map(|step| step["after"].as_array().unwrap().len()).sum();
    assert!(steps.len() > 10 && waits > steps.len(), "{plan:#}");

    let svg = fine(cluster.run("plan --lab --graph svg")).stdout;
    let elements = elements(&svg);
    let of = |tag: &'static str| elements.iter().filter(move |element| element.tag == tag);
    assert_eq!(elements[0].tag, "svg");
    assert!(elements[0].attributes.contains("xmlns=\"http://www.w3.org/2000/svg\""));
    let boxes = of("rect").filter(|rect| !rect.attributes.contains("class=\"lane\""));
    assert_eq!(boxes.count(), steps.len());
    assert_eq!(of("path").count(), waits);
    let texts: Vec<&str> = of("text").map(|text| text.content).collect();
    assert_eq!(texts.len(), steps.len());
    // Long names are shortened in the graph.
    let shown: BTreeSet<String> =
        texts.iter().map(|text| text.chars().take(16).collect()).collect();
    assert_eq!(shown, ids);
}

/// SVG element, with the text from its tag to the next tag.
struct Element<'a> {
    tag: &'a str,
    attributes: &'a str,
    content: &'a str,
}

/// Elements of an XML document in document order. Asserts that every element is closed, and that there is one root.
#[track_caller]
fn elements(xml: &str) -> Vec<Element<'_>> {
    let mut found = vec![];
    let mut open: Vec<&str> = vec![];
    let mut parts = xml.split('<');
    assert_eq!(parts.next(), Some(""), "it does not begin with a tag");
    for part in parts {
        let (tag, content) = part.split_once('>').expect("a tag that does not end");
        assert!(!content.contains('>'), "{part}");
        let is_entity =
            |rest: &str| ["amp;", "lt;", "gt;"].iter().any(|name| rest.starts_with(name));
        assert!(content.split('&').skip(1).all(is_entity), "{part}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            assert!(!open.is_empty() || found.is_empty(), "something stands beside <{tag}>");
            let is_whole = tag.ends_with('/');
            let tag = tag.trim_end_matches('/');
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            // In `a="1" b="2"`, a split at the quotes returns names and values alternately.
            assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
            let names =
                attributes.split('"').step_by(2).map(str::trim).filter(|name| !name.is_empty());
            assert!(names.clone().all(|name| name.ends_with('=')), "{tag}");
            assert_eq!(names.clone().collect::<BTreeSet<_>>().len(), names.count(), "{tag}");
            found.push(Element { tag: name, attributes, content });
            if !is_whole {
                open.push(name);
            }
        }
        assert!(!open.is_empty() || content.trim().is_empty(), "{part}");
    }
    assert_eq!(open, [""; 0], "not closed");
    found
}

#[test]
fn a_saved_plan_is_executed_only_if_nothing_has_changed() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let nothing_is_there = || {
        let run = fine(cluster.run(&format!("destroy --format json {IN_FILE}")));
        assert_eq!(run.stdout, "{\"cluster\":\"dev\",\"changed\":false,\"findings\":[]}\n");
    };
    let rejected = |saved: &str, why: &str| {
        let run = cluster.run(&format!("up --yes --plan {saved} {IN_FILE}"));
        assert_eq!(run.code, 1, "{}", run.stderr);
        let printed = format!("nothing was changed: {saved} cannot be used: {why}");
        assert!(run.stderr.contains(&printed), "{}", run.stderr);
        assert!(run.stderr.contains("hint: save a new plan with"), "{}", run.stderr);
    };

    let saved = fine(cluster.run(&format!("plan --out fresh.json {IN_FILE}")));
    let next = format!("`talmox up --plan fresh.json {IN_FILE}` executes this plan.");
    assert!(saved.stderr.contains(&next), "{}", saved.stderr);
    assert_eq!(cluster.mode("fresh.json"), 0o600);
    let file: Json = serde_json::from_str(&cluster.folder.read("fresh.json")).unwrap();
    assert_eq!(file["format"], 2);
    let steps = file["plan"]["steps"].as_array().unwrap();
    let upload = steps.iter().find(|step| step["action"]["kind"] == "upload-cidata").unwrap();
    let digest = upload["action"]["user_data"]["sha256"].as_str().unwrap();
    assert_eq!(digest.len(), 64, "a hash in place of the machine config");

    // This file was saved by an earlier release.
    cluster.folder.write("old.json", "{\"format\": 1, \"cluster\": \"dev\"}");
    rejected("old.json", "the file is not a plan that this version of talmox saved");

    // The saved plan is rejected with a changed inventory, and accepted with the original inventory.
    let text = cluster.folder.read(INVENTORY);
    cluster.folder.write(INVENTORY, &text.replace("10.0.0.11}", "10.0.0.11, cores: 3}"));
    rejected("fresh.json", "the inventory has changed since the plan was saved");
    nothing_is_there();
    cluster.folder.write(INVENTORY, &text);
    let up = fine(cluster.run(&format!("up --plan fresh.json {IN_FILE}")));
    assert!(up.stdout.contains("1 node is Ready"), "{}", up.stdout);

    // The saved plan is rejected if the observed state has changed.
    let more = format!("{text}workers: [{{name: wk-1, ip: 10.0.0.21}}]\n");
    cluster.folder.write(INVENTORY, &more);
    let grown = cluster.run(&format!("plan --detailed-exitcode --out grown.json {IN_FILE}"));
    assert_eq!(grown.code, 2, "{}", grown.stderr);
    rejected("fresh.json", "the observed state has changed since the plan was saved");
    fine(cluster.run(&format!("destroy --yes {IN_FILE}")));
    rejected("grown.json", "the observed state has changed since the plan was saved");
    nothing_is_there();
}

/// A missing plan file is reported before the lab is started.
#[test]
fn a_missing_plan_file_is_reported_at_once() {
    let cluster = Cluster::with_secrets();
    let run = cluster.run("up --lab --plan missing.json");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("missing.json"), "{}", run.stderr);
    assert!(!run.stderr.contains("lab"), "{}", run.stderr);
}
