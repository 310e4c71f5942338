//! Tests of the `.gitignore` that `init` writes, and of the check for tracked files with keys.

use std::fs;

use crate::support::Folder;

/// Content of a Git index that tracks these files, in version 2 of the format.
fn index(names: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
    for name in names {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 32]);
        bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        bytes.extend(name.bytes());
        let padding = 8 - (bytes.len() - start) % 8;
        bytes.extend(vec![0; padding]);
    }
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn init_ignores_files_with_keys_and_check_reports_tracked_ones() {
    let folder = Folder::new();
    folder.write("inventory/home/.gitignore", "*.log\n");
    let run = folder.talmox("init home --subnet 10.0.0.0/24");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("wrote inventory/home/.gitignore"), "{}", run.stderr);
    let ignored = folder.read("inventory/home/.gitignore");
    assert!(ignored.starts_with("*.log\n#"), "{ignored}");
    for line in ["kubeconfig", "talosconfig", "generated/", ".talmox/"] {
        assert!(ignored.lines().any(|known| known == line), "{line}: {ignored}");
    }

    fs::create_dir_all(folder.path().join(".git")).unwrap();
    let track = |names: &[&str]| {
        fs::write(folder.path().join(".git/index"), index(names)).unwrap();
        folder.talmox("check")
    };
    let harmless = track(&["inventory/home/cluster.yaml", "inventory/home/secrets.sops.yaml"]);
    assert_eq!(harmless.code, 0, "{}", harmless.stderr);
    assert!(!harmless.stderr.contains("tracked-keys"), "{}", harmless.stderr);
    let run = track(&[
        "generated/home-cp-1.yaml",
        "generated/schematics/a.yaml",
        "inventory/home/kubeconfig",
        "inventory/home/secrets.yaml",
        "other/kubeconfig",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let reported = "warning[tracked-keys]: Git tracks files with keys: generated/home-cp-1.yaml, \
                inventory/home/kubeconfig, inventory/home/secrets.yaml\n";
    assert!(run.stderr.contains(reported), "{}", run.stderr);
    assert!(run.stderr.contains("git rm --cached"), "{}", run.stderr);

    // A file with an age key is reported, whatever its name is.
    let key = format!("AGE-SECRET-KEY-1{}\n", "Q".repeat(58));
    folder.write("docs/notes.txt", &key);
    folder.write("docs/untracked.txt", &key);
    let run = track(&["docs/notes.txt", "inventory/home/cluster.yaml"]);
    let reported = "warning[tracked-keys]: Git tracks files with keys: docs/notes.txt\n";
    assert!(run.stderr.contains(reported), "{}", run.stderr);

    // If a file with keys exists, an unreadable index causes a warning.
    fs::write(folder.path().join(".git/index"), "nonsense").unwrap();
    assert!(!folder.talmox("check").stderr.contains("tracked-keys"));
    folder.write("inventory/home/kubeconfig", "x");
    let run = folder.talmox("check");
    assert!(run.stderr.contains("cannot check whether Git tracks"), "{}", run.stderr);
}
