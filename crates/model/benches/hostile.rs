//! Hostile and unusual inventories. Each of them must be loaded or rejected in well under a second. The bench prints a
//! table and fails if one of them takes longer.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use talmox_model::load::{ClusterFiles, File, Parsed};

const LIMIT: Duration = Duration::from_secs(1);

fn main() {
    many_names_on_one_node();
    many_nodes_with_much_in_common();
    many_mistakes();
    many_anchors();
}

const HEAD: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/8, gateway: 10.0.0.1, pod_cidr: 172.16.0.0/16, svc_cidr: 172.20.0.0/16}
proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}
";

/// Loads a text and reads all values that a renderer reads.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn is_quick(what: &str, text: &str) {
    let path = PathBuf::from("cluster.yaml");
    let files = ClusterFiles {
        cluster: Some(File { path, content: Ok(text.as_bytes().to_vec()) }),
        ..ClusterFiles::default()
    };
    let start = Instant::now();
    let inventory = Parsed::new(vec![files]).check(&BTreeMap::new());
    for diagnostic in &inventory.diagnostics {
        for label in diagnostic.primary.iter().chain(&diagnostic.related) {
            inventory.sources.locate(label.span);
            inventory.sources.get(label.span.source).redacted_text();
        }
    }
    let took = start.elapsed();
    println!(
        "{what:36} {:6} kB {took:8.0?}  {} findings",
        text.len() / 1000,
        inventory.diagnostics.len()
    );
    assert!(took < LIMIT, "{what} took {took:?}");
    assert!(inventory.diagnostics.len() <= 2000, "{}", inventory.diagnostics.len());
}

fn repeat(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

fn many_names_on_one_node() {
    for (key, open, close, item) in [
        ("labels", '{', '}', "x{}: y, "),
        ("tags", '[', ']', "x{}, "),
        ("image", '{', '}', ""),
        ("sysctls", '{', '}', "x{}: y, "),
    ] {
        let items = match key {
            "image" => format!("extensions: [{}]", repeat(100_000, |n| format!("a/x{n}, "))),
            _ => repeat(100_000, |n| item.replace("{}", &n.to_string())),
        };
        let text = format!(
            "{HEAD}machine: {{{key}: {open}{items}{close}}}\n\
             controlplane: [{{name: a, ip: 10.0.0.11, {key}: {open}{items}{close}}}]\n"
        );
        is_quick(key, &text);
    }
}

fn many_nodes_with_much_in_common() {
    let nodes = |extra: &str| {
        repeat(2000, |n| {
            format!("  - {{name: n{n}, ip: 10.1.{}.{}{extra}}}\n", n / 250, n % 250 + 1)
        })
    };
    let patches = repeat(2000, |n| format!("p{n}.yaml, "));
    is_quick(
        "patches",
        &format!("{HEAD}patches: {{all: [{patches}]}}\ncontrolplane:\n{}", nodes("")),
    );
    let labels = repeat(50_000, |n| format!("x{n}: y, "));
    is_quick(
        "labels",
        &format!("{HEAD}machine: {{labels: {{{labels}}}}}\ncontrolplane:\n{}", nodes("")),
    );
    let classes = repeat(2000, |n| format!("  c{n}: {{cores: 2}}\n"));
    is_quick(
        "classes",
        &format!("{HEAD}classes:\n{classes}controlplane:\n{}", nodes(", class: c1999")),
    );
    is_quick("typos", &format!("{HEAD}controlplane:\n{}", nodes(", coress: 4")));
    is_quick("devices", &format!("{HEAD}controlplane:\n{}", nodes(", gpu: {pci: '28:00'}")));
}

fn many_mistakes() {
    is_quick("unknown keys", &format!("{HEAD}{}", repeat(300_000, |n| format!("k{n}: 1\n"))));
    let typos = repeat(100_000, |n| format!("{{name: n{n}, x: 1}}, "));
    is_quick("one line", &format!("{HEAD}controlplane: [{typos}]\n"));
    let typos = repeat(60_000, |n| format!("{{name: ä{n}, ipp: 1}}, "));
    is_quick("one line of wide letters", &format!("{HEAD}controlplane: [{typos}]\n"));
    is_quick(
        "twins",
        &format!("{HEAD}controlplane:\n{}", "- {name: n, ip: 10.0.0.11}\n".repeat(130_000)),
    );
    let mut nodes = String::from("controlplane:\n");
    for n in 0..20_000 {
        writeln!(nodes, "- {{name: n{n}, ipp: 10.{}.{}.1}}", n / 250, n % 250)
            .expect("writing to a string");
    }
    is_quick("a typo in each", &format!("{HEAD}{nodes}"));
    is_quick("duplicate keys", &format!("{HEAD}{}", "boot: dhcp\n".repeat(300_000)));
    let secrets = repeat(100_000, |n| format!("token{n}: hunter2\n"));
    is_quick("secrets", &format!("{HEAD}{secrets}"));
    is_quick("secrets in a text that is not YAML", &format!("{secrets}x: ["));
    is_quick("long words", &format!("{HEAD}{}: 1\n", "x".repeat(1 << 20)));
}

fn many_anchors() {
    let anchors = repeat(90_000, |n| format!("- &a{n} x\n"));
    is_quick("anchors", &format!("{HEAD}x-a:\n{anchors}"));
    let anchors = repeat(100_000, |n| format!("- &a{n} x\n"));
    is_quick("too many anchors", &format!("{HEAD}x-a:\n{anchors}"));
    let aliases = repeat(90_000, |_| "- *a\n".to_owned());
    is_quick("aliases", &format!("{HEAD}x-a: &a b\nx-b:\n{aliases}"));
}
