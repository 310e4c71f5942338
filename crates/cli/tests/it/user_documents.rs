//! Test that inventories which users wrote before talmox existed load unchanged. `TALMOX_SEEDS` names a folder of
//! documents. One of the documents contains the two inventory files as code blocks.

use std::fs;

use crate::support::{Folder, skipped};

/// First code block after a heading.
fn block_after<'a>(document: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(heading)?;
    let (_, rest) = rest.split_once("```\n")?;
    Some(rest.split_once("```")?.0)
}

#[test]
fn the_files_of_a_user_document_load_unchanged() {
    let Some(folder) = std::env::var_os("TALMOX_SEEDS") else {
        skipped("SKIPPED: TALMOX_SEEDS is not set, no user's document was loaded");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI sets TALMOX_SEEDS");
        return;
    };
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let document = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
        let files = ["cluster.yaml", "nodes.yaml"];
        let [Some(cluster), Some(nodes)] =
            files.map(|name| block_after(&document, &format!("\n## {name}\n")))
        else {
            continue;
        };
        found += 1;
        let folder = Folder::new();
        folder.write("inventory/dev/cluster.yaml", cluster);
        folder.write("inventory/dev/nodes.yaml", nodes);
        let run = folder.talmox("check dev");
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            run.stdout
                .starts_with("dev: 1 control plane, 1 worker, Talos v1.8.2, Kubernetes v1.30.1\n"),
            "{}",
            run.stdout
        );
        for missing in ["prefix length", "gateway", "`proxmox` has no endpoint"] {
            assert!(run.stderr.contains(missing), "{}", run.stderr);
        }
        assert!(!run.stderr.contains("error"), "{}", run.stderr);
    }
    assert_eq!(found, 1, "one document has the two files");
}
