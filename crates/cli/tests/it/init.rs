//! `talmox init`

use crate::lab::ServedLab;
use crate::support::{Cluster, Folder};
use insta::assert_snapshot;

#[test]
fn the_new_inventory_passes_the_check() {
    for args in [
        "init --subnet 10.0.0.0/24",
        "init home --subnet 10.0.0.0/29 --controlplanes 1 --workers 1",
        "init lab --subnet 192.168.7.0/24 --vip none --workers 0 --controlplanes 1",
        "init big --subnet 10.0.0.0/16 --controlplanes 5 --workers 60 --talos-version v1.11.2",
        "init pinned --subnet 10.0.0.0/24 --proxmox atlas --fingerprint \
         AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB:AB",
    ] {
        let folder = Folder::new();
        let run = folder.talmox(args);
        assert_eq!(run.code, 0, "{args}: {}", run.stderr);
        let check = folder.talmox("check");
        assert_eq!(check.code, 0, "{args}: {}", check.stderr);
        assert!(!check.stderr.contains("error"), "{args}: {}", check.stderr);
    }
}

#[test]
fn the_files_contain_the_flags() {
    let folder = Folder::new();
    folder.talmox("init home --subnet 10.0.0.0/24 --node atlas");
    assert_snapshot!(folder.read("inventory/home/nodes.yaml"), @r"
    # yaml-language-server: $schema=../talmox.schema.json
    controlplane:
      - {name: home-cp-1, ip: 10.0.0.11}
      - {name: home-cp-2, ip: 10.0.0.12}
      - {name: home-cp-3, ip: 10.0.0.13}

    workers:
      - {name: home-wk-1, ip: 10.0.0.21}
      - {name: home-wk-2, ip: 10.0.0.22}
    ");
    let cluster = folder.read("inventory/home/cluster.yaml");
    assert!(cluster.starts_with("# yaml-language-server: $schema=../talmox.schema.json\n"));
    assert!(cluster.contains("  vip: 10.0.0.20"), "{cluster}");
    assert!(cluster.contains("  node: atlas\n"), "{cluster}");
    let schema = folder.read("inventory/talmox.schema.json");
    assert_eq!(schema, folder.talmox("schema").stdout);
}

#[test]
fn nothing_is_overwritten() {
    let folder = Folder::new();
    folder.write("inventory/home/nodes.yaml", "mine\n");
    folder.write("inventory/talmox.schema.json", "mine\n");
    let run = folder.talmox("init home --subnet 10.0.0.0/24");
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error[file-exists]: inventory/home/nodes.yaml exists already

    hint: choose another cluster name; init never overwrites files
    ");
    assert!(!folder.path().join("inventory/home/cluster.yaml").exists());
    assert_eq!(folder.talmox("init other --subnet 10.0.0.0/24").code, 0);
    assert_eq!(folder.read("inventory/home/nodes.yaml"), "mine\n");
    assert_eq!(folder.read("inventory/talmox.schema.json"), "mine\n");
}

#[test]
fn invalid_answers_write_no_files() {
    for args in [
        "init",
        "init --subnet 10.0.0.0",
        "init Home --subnet 10.0.0.0/24",
        "init --subnet 10.0.0.0/24 --gateway 10.1.0.1",
        "init --subnet 10.0.0.0/24 --vip 10.0.0.11",
        "init --subnet 10.0.0.0/29 --controlplanes 9",
        "init --subnet 10.0.0.0/24 --controlplanes 0",
        "init --subnet 10.0.0.0/24 --proxmox http://pve",
        "init --subnet 10.0.0.0/24 --fingerprint AB",
        "init --subnet 10.0.0.0/24 --talos-version latest",
    ] {
        let folder = Folder::new();
        let run = folder.talmox(args);
        assert_eq!(run.code, 64, "{args}: {}", run.stderr);
        assert!(!folder.path().join("inventory").exists(), "{args}");
    }
}

#[test]
fn an_unreachable_proxmox_is_only_a_warning() {
    let folder = Folder::new();
    let run = folder.talmox("init --subnet 10.0.0.0/24 --proxmox 127.0.0.1:1");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("no fingerprint from https://127.0.0.1:1"), "{}", run.stderr);
}

#[test]
fn a_second_cluster_does_not_conflict_with_the_first() {
    let folder = Folder::new();
    assert_eq!(folder.talmox("init home --subnet 10.0.0.0/24").code, 0);
    let run = folder.talmox("init lab --subnet 10.0.0.0/24");
    assert_eq!(run.code, 64, "{}", run.stderr);
    assert!(
        run.stderr.contains("is also used by `home-cp-1` of the cluster `home`"),
        "{}",
        run.stderr
    );
    assert!(!folder.path().join("inventory/lab").exists());
    let run =
        folder.talmox("init lab --subnet 10.0.0.0/24 --first-address 10.0.0.51 --vip 10.0.0.60");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn hosts_may_have_upper_case_letters() {
    let folder = Folder::new();
    assert_eq!(folder.talmox("init --subnet 10.0.0.0/24 --node PVE1").code, 0);
    assert!(folder.read("inventory/home/cluster.yaml").contains("  node: PVE1\n"));
}

#[test]
fn a_prompt_is_repeated_until_the_answer_is_valid() {
    let folder = Folder::new();
    let answers = "lab\n\npve7\n10.0.0.0\n10.9.0.0/24\n\n1\n1\n\n\n";
    let Some((code, shown)) = folder.typed("init", answers) else { return };
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("is not an IPv4 network"), "{shown}");
    assert!(shown.contains("Gateway [10.9.0.1]"), "{shown}");
    let nodes = folder.read("inventory/lab/nodes.yaml");
    assert!(nodes.contains("{name: lab-wk-1, ip: 10.9.0.21}"), "{nodes}");
    assert!(folder.read("inventory/lab/cluster.yaml").contains("  node: pve7\n"));
}

/// After an invalid answer, the other answers are kept.
#[test]
fn only_an_invalid_answer_is_asked_again() {
    let folder = Folder::new();
    assert_eq!(folder.talmox("init home --subnet 10.0.0.0/24").code, 0);
    let answers = [
        "home",
        "lab",
        "",
        "",
        "10.0.0.0/24",
        "",
        "300",
        "1",
        "1",
        "",
        "10.0.0.51",
        "10.0.0.20",
        "10.0.0.60",
        "",
    ];
    let Some((code, shown)) = folder.typed("init", &answers.join("\n")) else { return };
    assert_eq!(code, Some(0), "{shown}");
    for problem in [
        "inventory/home/cluster.yaml exists already",
        "10.0.0.0/24 has too few addresses for this number of nodes",
        "the address 10.0.0.11 of `lab-cp-1` is also used by `home-cp-1` of the cluster `home`",
        "the VIP 10.0.0.20 is also the VIP of the cluster `home`",
    ] {
        assert_eq!(shown.matches(&format!("  {problem}")).count(), 1, "{problem}: {shown}");
    }
    let nodes = folder.read("inventory/lab/nodes.yaml");
    assert!(nodes.contains("{name: lab-cp-1, ip: 10.0.0.51}"), "{nodes}");
    assert!(folder.read("inventory/lab/cluster.yaml").contains("  vip: 10.0.0.60"));
    assert_eq!(folder.talmox("check").code, 0);
}

#[test]
fn answers_can_be_edited_before_they_are_entered() {
    let folder = Folder::new();
    let Some(mut typing) = folder.typing("init") else { return };
    typing.wait_for("Name of the cluster [home]: ");
    // The bytes are text and the keys Left, End, Backspace, Home and Delete. The edited name is `lab2`.
    typing.write("lb\x1b[Da\x1b[Fx\x7f2\x1b[Hzz\x1b[D\x1b[D\x1b[3~\x1b[3~\n");
    typing.wait_for("URL of the Proxmox API");
    typing.write("\n\n10.9.0.0/24\n\n1\n1\n\n\n");
    let (code, shown) = typing.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(folder.path().join("inventory/lab2/nodes.yaml").exists(), "{shown}");
}

#[test]
fn an_interrupted_prompt_writes_nothing_and_restores_the_terminal() {
    for (keys, printed) in [("lab\x03", "interrupted: nothing was written"), ("\x04", "no answer")]
    {
        let folder = Folder::new();
        let Some(mut typing) = folder.typing("init; stty -a") else { return };
        typing.wait_for("Name of the cluster [home]: ");
        typing.write(keys);
        let (_, shown) = typing.end();
        assert!(shown.contains(printed), "{shown}");
        assert!(shown.contains(" icanon") && shown.contains(" echo "), "{shown}");
        assert!(shown.contains("isig") && !shown.contains("-isig"), "{shown}");
        assert!(!folder.path().join("inventory").exists());
    }
}

#[test]
fn a_declined_certificate_repeats_the_url_prompt() {
    let cluster = Cluster::new();
    let lab = ServedLab::in_file(&cluster, "");
    let folder = Folder::new();
    let Some(mut typing) = folder.typing("init") else { return };
    typing.write(&format!("lab\n{}\n", lab.pve("url")));
    typing.wait_for("Are the fingerprints equal?");
    typing.write("n\n");
    typing.wait_for("URL of the Proxmox API");
    typing.write(&format!("{}\n", lab.pve("url")));
    typing.wait_for("Are the fingerprints equal?");
    typing.write("y\npve7\n10.9.0.0/24\n\n1\n1\n\n\n");
    let (code, shown) = typing.end();
    assert_eq!(code, Some(0), "{shown}");
    let written = folder.read("inventory/lab/cluster.yaml");
    assert!(written.contains(&format!("endpoint: {}\n", lab.pve("url"))), "{written}");
    assert!(written.contains(lab.pve("fingerprint")), "{written}");
    // The URL is from a flag, so `init` does not ask for it again.
    let args = format!("init dev --proxmox {} --subnet 10.8.0.0/24", lab.pve("url"));
    let (code, shown) = folder.typed(&args, "n\n").unwrap();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("the certificate was not confirmed; nothing was written"), "{shown}");
    assert!(!folder.path().join("inventory/dev").exists());
}

/// The commands are `init`, `init --role`, `check --live` and `check`.
#[test]
fn all_commands_name_the_same_place_for_the_token() {
    let folder = Folder::new();
    folder.talmox("init home --subnet 10.0.0.0/24 --proxmox 127.0.0.1:1");
    let role = folder.talmox("init --role");
    assert_eq!(role.code, 0, "{}", role.stderr);
    assert!(role.stderr.contains("The last command prints the token"), "{}", role.stderr);
    assert!(
        role.stderr.contains("`export PROXMOX_TOKEN='talmox@pve!talmox=…'`"),
        "{}",
        role.stderr
    );
    assert!(!role.stderr.contains("secrets set"), "{}", role.stderr);
    let last = role.stdout.lines().last().unwrap();
    assert!(last.starts_with("echo \"$token\" |"), "{last}");
    let made = role.stdout.lines().position(|line| line.contains("user token add")).unwrap();
    let given = role.stdout.lines().position(|line| line.contains("--tokens")).unwrap();
    assert!(made < given, "rights are given to a token that exists");
    let live = folder.talmox("check --live");
    assert!(live.stderr.contains("`export PROXMOX_TOKEN=…`"), "{}", live.stderr);
    let path = "inventory/home/cluster.yaml";
    let text = folder.read(path);
    let secret = text.replace("{env: PROXMOX_TOKEN}", "{secret: proxmox.token}");
    folder.write(path, &secret);
    let role = folder.talmox("init --role");
    assert!(role.stderr.contains("`talmox secrets set proxmox.token`"), "{}", role.stderr);
    folder.write(path, &text.replace("  token: ", "  # token: "));
    let check = folder.talmox("check");
    assert!(check.stderr.contains("add `token: {env: PROXMOX_TOKEN}`"), "{}", check.stderr);
}
