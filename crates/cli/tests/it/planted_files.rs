//! Tests of files and links that another user, or the author of the inventory, put at paths that talmox uses.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::PathBuf;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, SECRETS, skipped};

const PATH: &str = "inventory/dev/cluster.yaml";
const RUNS: &str = "inventory/dev/.talmox";

fn at(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.folder.path().join(name)
}

/// These commands write the lock and the run logs to the run folder.
#[test]
fn links_at_the_paths_of_the_lock_are_not_followed() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 40");
    cluster.folder.write("victim", "precious\n");
    fs::create_dir(at(&cluster, "elsewhere")).unwrap();
    let commands = [format!("up --yes {IN_FILE}"), format!("destroy --yes {IN_FILE}")];
    let rejected = |link: &str| {
        for command in &commands {
            let run = cluster.run(command);
            assert_eq!(run.code, 1, "{link}: {command}: {}", run.stderr);
            let reported = format!("{link} is a link that talmox did not create");
            assert!(run.stderr.contains(&reported), "{command}: {}", run.stderr);
        }
        assert_eq!(cluster.folder.read("victim"), "precious\n");
        assert_eq!(fs::read_dir(at(&cluster, "elsewhere")).unwrap().count(), 0, "{link}");
    };
    fs::create_dir(at(&cluster, RUNS)).unwrap();
    symlink(at(&cluster, "victim"), at(&cluster, RUNS).join("lock")).unwrap();
    rejected(&format!("{RUNS}/lock"));
    // A write through a dangling link would create the target of the link.
    fs::remove_file(at(&cluster, RUNS).join("lock")).unwrap();
    symlink(at(&cluster, "elsewhere/new"), at(&cluster, RUNS).join("lock")).unwrap();
    rejected(&format!("{RUNS}/lock"));
    fs::remove_dir_all(at(&cluster, RUNS)).unwrap();
    symlink(at(&cluster, "elsewhere"), at(&cluster, RUNS)).unwrap();
    rejected(RUNS);

    // If the folder of the run logs is a link, the run continues without a run log.
    fs::remove_file(at(&cluster, RUNS)).unwrap();
    fs::create_dir(at(&cluster, RUNS)).unwrap();
    symlink(at(&cluster, "elsewhere"), at(&cluster, RUNS).join("runs")).unwrap();
    let run = cluster.run(&commands[0]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("this run is not logged: "), "{}", run.stderr);
    assert_eq!(fs::read_dir(at(&cluster, "elsewhere")).unwrap().count(), 0);
}

/// With another CA file, talmox could send the token to another server.
#[test]
fn the_ca_file_of_an_inventory_must_be_in_its_repository() {
    let cluster = Cluster::of_one_node().with_token("{env: HOME}");
    let text = cluster.folder.read(PATH);
    fs::create_dir(at(&cluster, "inventory/.git")).unwrap();
    cluster.folder.write("private.pem", "line-of-mine\n");
    cluster.folder.write("inventory/ca.pem", "no certificate\n");
    symlink(at(&cluster, "private.pem"), at(&cluster, "inventory/dev/link.pem")).unwrap();
    let absolute = at(&cluster, "private.pem").display().to_string();
    let name = |file: &str| {
        let named = text.replace("node: pve}", &format!("node: pve, ca_file: '{file}'}}"));
        assert_ne!(named, text);
        cluster.folder.write(PATH, &named);
    };
    for file in ["../../private.pem", "link.pem", &absolute] {
        name(file);
        for command in ["check", "plan", "up --yes", "destroy --yes"] {
            let run = cluster.run(command);
            assert_eq!(run.code, 1, "{file}: {command}: {}", run.stderr);
            let reported = format!("{}{}", run.stdout, run.stderr);
            assert!(reported.contains("it is outside"), "{file}: {command}: {reported}");
            assert!(!reported.contains("of-mine"), "{file}: {command}: {reported}");
        }
    }
    // A file inside the repository or an allowed file is read. The error is that it is not a certificate.
    for (file, more) in [("../ca.pem", ""), ("link.pem", " --allow-file private.pem")] {
        name(file);
        let run = cluster.run(&format!("plan{more}"));
        assert_eq!(run.code, 1, "{file}: {}", run.stderr);
        assert!(!run.stderr.contains("it is outside"), "{file}: {}", run.stderr);
        assert!(!run.stderr.contains("of-mine"), "{file}: {}", run.stderr);
    }
}

/// The other user could decrypt all secrets that are encrypted later.
#[test]
fn recipients_of_another_user_above_the_repository_are_not_used() {
    let cluster = Cluster::new();
    let own = cluster.run("secrets init");
    assert_eq!(own.code, 0, "{}", own.stderr);
    let own = cluster.folder.read(SECRETS);
    let recipients = |text: &str| text.matches("recipient: ").count();
    assert_eq!(recipients(&own), 1);
    let other = Cluster::with_secrets();
    let foreign = other.folder.read(SECRETS);
    let foreign = foreign.split("recipient: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let own = own.split("recipient: ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert_ne!(own, foreign);

    // The `.sops.yaml` is above the repository, in a folder such as `/tmp`.
    fs::create_dir(at(&cluster, "inventory/.git")).unwrap();
    let rule = format!("creation_rules: [{{age: '{own},{foreign}'}}]\n");
    cluster.folder.write(".sops.yaml", &rule);
    let planted = at(&cluster, ".sops.yaml");
    fs::set_permissions(cluster.folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let make = || {
        fs::remove_file(at(&cluster, SECRETS)).unwrap();
        let run = cluster.run("secrets init");
        assert_eq!(run.code, 0, "{}", run.stderr);
        cluster.folder.read(SECRETS)
    };
    let made = make();
    assert!(made.contains(foreign), "a file of the user's own counts");
    if chown(&planted, Some(65_534), None).is_err() {
        skipped("only root can give a file away");
        return;
    }
    let made = make();
    assert!(!made.contains(foreign) && recipients(&made) == 1, "{made}");
    // A link that the other user created is ignored, even if its target belongs to root.
    fs::rename(&planted, at(&cluster, "rules.yaml")).unwrap();
    chown(at(&cluster, "rules.yaml"), Some(0), None).unwrap();
    symlink("rules.yaml", &planted).unwrap();
    std::os::unix::fs::lchown(&planted, Some(65_534), None).unwrap();
    let made = make();
    assert!(!made.contains(foreign) && recipients(&made) == 1, "{made}");
}
