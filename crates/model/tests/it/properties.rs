//! Properties of every text: loading never panics, and every finding has a position in a file.

use crate::support::{findings, load, load_bytes};
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use talmox_model::Inventory;

/// Reads all values that a renderer would read.
fn examine(inventory: &Inventory) {
    findings(inventory);
    for diagnostic in &inventory.diagnostics {
        let labels = diagnostic.primary.iter().chain(&diagnostic.related);
        for label in labels {
            let source = inventory.sources.get(label.span.source);
            assert!(source.text().get(label.span.range()).is_some(), "{diagnostic:?}");
        }
    }
    for cluster in &inventory.clusters {
        for node in &cluster.nodes {
            cluster.explain(node);
        }
    }
    for source in inventory.sources.iter() {
        assert_eq!(source.redacted_text().len(), source.text().len());
    }
}

const VALID: &str = include_str!("../../../../examples/home/cluster.yaml");

/// Valid and invalid fragments of inventories.
fn piece() -> impl Strategy<Value = String> {
    let words: Vec<String> = [
        "controlplane:\n",
        "workers:\n",
        "  - ",
        "name: a",
        "ip: 10.0.0.11",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "\n",
        "machine:",
        " gpu:",
        "pci: '28:00'",
        "null",
        "&x ",
        "*x",
        "<<: ",
        "network:\n",
        "  vip: ",
        "10.0.0.0/16",
        "patches: [x.yaml]",
        "classes: {a: {}}",
        "class: a",
        "proxmox: {token: ",
        "{env: X}",
        "\"",
        "'",
        "|\n",
        "# c\n",
        "talos_version: v1.11.2\n",
        "boot: meta\n",
        "ä",
        "\t",
        "---\n",
        "image: {extensions: [a/b]}\n",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    prop_oneof![8 => prop::sample::select(words), 1 => "[ -~]{1,6}"]
}

/// The corpus contains the initial texts of the fuzzer and the texts that it found.
#[test]
fn the_fuzz_corpus_never_panics() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/load");
    let mut texts = 0;
    for entry in fs::read_dir(corpus).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        examine(&load_bytes(bytes.get(1..).unwrap_or_default()));
        texts += 1;
    }
    assert!(texts > 5, "only {texts} texts");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        examine(&load_bytes(&bytes));
    }

    #[test]
    fn inventory_fragments_never_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        examine(&load(&pieces.concat()));
    }

    /// A typo removes up to two characters at any position of a valid file, and inserts up to two characters there.
    #[test]
    fn typos_never_panic(at in 0..VALID.len(), typo in "[ -~\\n\\t]{0,2}", lost in 0usize..3) {
        let mut text = VALID.to_owned();
        let floor = |at: usize| (0..=at.min(VALID.len())).rev().find(|at| VALID.is_char_boundary(*at)).unwrap();
        let (start, end) = (floor(at), floor(at + lost).max(floor(at)));
        text.replace_range(start..end, &typo);
        examine(&load(&text));
    }
}
