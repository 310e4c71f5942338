//! `talmox secrets`

use std::fs;

use serde_json::Value as Json;
use talmox_talos_config::age::{Identity, parse_identities};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::sops;
use talmox_talos_config::time::UnixTime;

use crate::support::{Cluster, KEYS, SECRETS};

/// Recipient of a new age key, and the text of its key file.
fn new_key() -> (String, String) {
    let identity = Identity::generate(&mut SystemRandomness::new());
    let file = identity.to_key_file(UnixTime::from_seconds(0));
    (identity.recipient().to_string(), file.expose().to_owned())
}

fn decrypted(cluster: &Cluster, keys: &str) -> sops::SopsDocument {
    sops::decrypt(&cluster.folder.read(SECRETS), &parse_identities(keys).unwrap()).unwrap()
}

fn plain_bundle(cluster: &Cluster) -> String {
    let document = decrypted(cluster, &cluster.folder.read(KEYS));
    talmox_yaml::emit(&document.get("talos").unwrap(), 4)
}

/// Secret values of the secrets bundle.
pub(crate) fn private_values(cluster: &Cluster) -> Vec<String> {
    let bundle = plain_bundle(cluster);
    let values = bundle.lines().filter_map(|line| line.trim().split_once(": "));
    let private = values.filter(|(key, _)| *key != "crt" && *key != "id");
    private.map(|(_, value)| value.trim_matches('"').to_owned()).collect()
}

#[test]
fn init_creates_a_key_and_the_secrets_once() {
    let cluster = Cluster::new();
    let run = cluster.run("secrets init");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.contains("created an age key"), "{}", run.stderr);
    assert!(run.stderr.contains("back up this age key"), "{}", run.stderr);
    assert_eq!((cluster.mode(SECRETS), cluster.mode(KEYS)), (0o600, 0o600));
    let (secrets, keys) = (cluster.folder.read(SECRETS), cluster.folder.read(KEYS));
    assert!(decrypted(&cluster, &keys).get_text("talos.cluster.secret").is_some());
    assert_eq!(private_values(&cluster).len(), 9);
    for value in private_values(&cluster) {
        assert!(!secrets.contains(&value));
    }

    let again = cluster.run("secrets init");
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("talmox never replaces them"), "{}", again.stderr);
    // If the age key is missing, no new secrets are generated.
    fs::remove_file(cluster.folder.path().join(KEYS)).unwrap();
    for command in ["secrets init", "secrets show", "secrets edit", "kubeconfig"] {
        let run = cluster.run(command);
        assert_eq!(run.code, 1, "{command}");
        assert!(run.stderr.contains("cannot decrypt"), "{}", run.stderr);
        assert!(run.stderr.contains("keys.txt (missing)"), "{}", run.stderr);
    }
    assert_eq!(cluster.folder.read(SECRETS), secrets);
    assert!(!cluster.folder.path().join(KEYS).exists());
}

#[test]
fn recipients_come_from_the_nearest_source() {
    let (one, key) = new_key();
    let (two, _) = new_key();
    let mut cluster = Cluster::new();
    cluster.folder.write("key", &key);
    cluster.set("SOPS_AGE_KEY_FILE", "key");
    let recipients = |cluster: &Cluster, stdin: &str| {
        fs::remove_file(cluster.folder.path().join(SECRETS)).ok();
        let run = cluster.run_with("secrets set values.x", stdin);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let document = decrypted(cluster, &key);
        document.recipients().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(recipients(&cluster, "v\n"), [one.as_str()]);
    cluster.set("SOPS_AGE_RECIPIENTS", format!("{two},{one}"));
    assert_eq!(recipients(&cluster, "v"), [two.as_str(), one.as_str()]);
    let rules = format!(
        "creation_rules:\n  - path_regex: ^other\n    age: {two}\n  - path_regex: ^inventory/.*\\.sops\\.yaml$\n    age: {one}\n"
    );
    cluster.folder.write(".sops.yaml", &rules);
    assert_eq!(recipients(&cluster, "v"), [one.as_str()]);
    assert_eq!(decrypted(&cluster, &key).get_text("values.x").unwrap().expose(), "v");

    // If no creation rule matches, the command fails and uses no other recipients.
    cluster.folder.write(".sops.yaml", &format!("creation_rules: [{{path_regex: x, age: {two}}}]"));
    fs::remove_file(cluster.folder.path().join(SECRETS)).unwrap();
    let run = cluster.run("secrets init");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no creation rule of"), "{}", run.stderr);
    assert!(!cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn a_rule_that_leaves_secrets_unencrypted_is_an_error() {
    let cluster = Cluster::with_secrets();
    let keys = cluster.folder.read(KEYS);
    let own = parse_identities(&keys).unwrap()[0].recipient();
    fs::remove_file(cluster.folder.path().join(SECRETS)).unwrap();
    let rule = format!("creation_rules: [{{age: {own}, encrypted_regex: ^(data|stringData)$}}]");
    cluster.folder.write(".sops.yaml", &rule);
    let run = cluster.run_with("secrets set proxmox.token", "hunter2");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("`proxmox.token` would be in clear text in"), "{}", run.stderr);
    assert!(!cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn a_wrong_key_and_tampering_have_different_errors() {
    let mut cluster = Cluster::with_secrets();
    let good = cluster.folder.read(SECRETS);
    let damaged = good.replacen("id: ENC[AES256_GCM,data:", "id: ENC[AES256_GCM,data:AAAA", 1);
    cluster.folder.write(SECRETS, &damaged);
    let run = cluster.run("secrets show");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("`talos.cluster.id` was changed"), "{}", run.stderr);
    // After one value is removed, the other values can still be decrypted.
    let without: Vec<&str> = good.lines().filter(|line| !line.contains("bootstraptoken")).collect();
    cluster.folder.write(SECRETS, &without.join("\n"));
    let run = cluster.run("secrets show");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("message authentication code"), "{}", run.stderr);
    cluster.folder.write(SECRETS, "talos: {}\n");
    assert!(cluster.run("secrets show").stderr.contains("not encrypted with sops"));
    cluster.folder.write(SECRETS, &good);

    fs::remove_file(cluster.folder.path().join(KEYS)).unwrap();
    cluster.set("SOPS_AGE_KEY", new_key().1);
    let run = cluster.run("secrets show");
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("none of the 1 available age keys can decrypt the file"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("looked for age keys in SOPS_AGE_KEY,"), "{}", run.stderr);
    assert!(!run.stderr.contains("AGE-SECRET-KEY"), "{}", run.stderr);
}

#[test]
fn keys_are_read_from_the_places_of_sops() {
    let secrets = Cluster::with_secrets();
    let key = secrets.folder.read(KEYS);
    let text = secrets.folder.read(SECRETS);
    let other = || {
        let cluster = Cluster::new();
        cluster.folder.write(SECRETS, &text);
        cluster
    };
    let mut by_value = other();
    by_value.set("SOPS_AGE_KEY", &key);
    let mut by_file = other();
    // A key of an unsupported kind is skipped.
    by_file.folder.write("keys", &format!("AGE-PLUGIN-YUBIKEY-1XYZ\n{key}"));
    by_file.set("SOPS_AGE_KEY_FILE", "keys");
    let mut by_command = other();
    by_command.folder.write("a key", &key);
    by_command.set("SOPS_AGE_KEY_CMD", "cat 'a key'");
    let mut by_xdg = other();
    by_xdg.folder.write("xdg/sops/age/keys.txt", &key);
    let xdg = by_xdg.folder.path().join("xdg");
    by_xdg.set("XDG_CONFIG_HOME", xdg);
    for (index, cluster) in [by_value, by_file, by_command, by_xdg].iter().enumerate() {
        let run = cluster.run("secrets show");
        assert_eq!(run.code, 0, "{index}: {}", run.stderr);
    }
    let mut missing = other();
    missing.set("SOPS_AGE_KEY_FILE", "nowhere");
    let run = missing.run("secrets show");
    assert!(
        run.stderr.contains("SOPS_AGE_KEY_FILE names the file nowhere, which does not exist"),
        "{}",
        run.stderr
    );
}

#[test]
fn show_never_shows_a_key() {
    let cluster = Cluster::with_secrets();
    cluster.run_with("secrets set proxmox.token", "root@pam!a=hunter2\n");
    let (text, json) = (cluster.run("secrets show"), cluster.run("secrets show --format json"));
    for run in [&text, &json] {
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(!run.stdout.contains("hunter2"));
        for value in private_values(&cluster) {
            assert!(!run.stdout.contains(&value));
        }
    }
    assert!(text.stdout.contains("\nos             O=talos       20"), "{}", text.stdout);
    assert!(text.stdout.contains("9 years, 36"), "{}", text.stdout);
    assert!(text.stdout.ends_with("\nother secrets: proxmox.token\n"), "{}", text.stdout);
    let json: Json = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["certificates"].as_array().unwrap().len(), 4);
    assert!(json["certificates"][0]["remaining_seconds"].as_u64().unwrap() > 300_000_000);
    assert_eq!(json["secrets"], serde_json::json!(["proxmox.token"]));
}

#[test]
fn edit_saves_the_edited_text() {
    let mut cluster = Cluster::with_secrets();
    let runtime = cluster.folder.path().join("run");
    fs::create_dir(&runtime).unwrap();
    cluster.set("XDG_RUNTIME_DIR", &runtime);
    let with_editor = |cluster: &mut Cluster, text: &str| {
        let editor = cluster.script("editor", text);
        cluster.set("EDITOR", format!("'{}' --wait", editor.display()));
        let run = cluster.run("secrets edit");
        assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0, "the clear text is gone");
        run
    };
    let before = cluster.folder.read(SECRETS);
    let run = with_editor(&mut cluster, "exit 0");
    assert_eq!((run.code, run.stderr.as_str()), (0, "no changes\n"));
    assert_eq!(cluster.folder.read(SECRETS), before);

    let add =
        "stat -c '%a' \"$2\" \"$(dirname \"$2\")\" > modes\necho 'values: {a: hunter2}' >> \"$2\"";
    let run = with_editor(&mut cluster, add);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(cluster.folder.read("modes"), "600\n700\n");
    let after = cluster.folder.read(SECRETS);
    assert!(!after.contains("hunter2"));
    assert_eq!(cluster.mode(SECRETS), 0o600);
    let keys = cluster.folder.read(KEYS);
    assert_eq!(decrypted(&cluster, &keys).get_text("values.a").unwrap().expose(), "hunter2");
    // Unchanged values keep their ciphertext.
    let line = before.lines().find(|line| line.contains("bootstraptoken")).unwrap();
    assert!(after.contains(line));

    for (script, message) in [
        ("echo 'a: [' >> \"$2\"", "this is not YAML, line "),
        ("sed -i 's/token: ./token: z/' \"$2\"", "the Talos bundle was changed"),
        ("sed -i '/bootstraptoken/d' \"$2\"", "the secrets bundle lacks `secrets.bootstraptoken`"),
        ("echo 'values: {a: b}' > \"$2\"", "the Talos bundle was changed"),
        ("echo 'values2: x' >> \"$2\"; exit 3", "the editor failed (exit status: 3)"),
        ("rm \"$2\"", "cannot read the edited file"),
    ] {
        let run = with_editor(&mut cluster, script);
        assert_eq!(run.code, 1, "{script}");
        assert!(run.stderr.contains(message), "{script}: {}", run.stderr);
        assert_eq!(cluster.folder.read(SECRETS), after);
    }
    // Ctrl-C is handled by the editor. After SIGTERM, no temporary file remains.
    let run = with_editor(&mut cluster, "kill -TERM $PPID; echo 'values2: x' >> \"$2\"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("interrupted; nothing was written"), "{}", run.stderr);
    let run = with_editor(&mut cluster, "kill -INT $PPID; echo 'values2: x' >> \"$2\"");
    assert_eq!(run.code, 0, "{}", run.stderr);
    // Another process writes the file while the editor is open.
    let meanwhile = format!("echo '#' >> {SECRETS}\necho 'values3: x' >> \"$2\"");
    let run = with_editor(&mut cluster, &meanwhile);
    assert!(run.stderr.contains("another process changed "), "{}", run.stderr);
}

#[test]
fn rekey_changes_the_recipients() {
    let mut cluster = Cluster::with_secrets();
    let old = cluster.folder.read(KEYS);
    let bundle = plain_bundle(&cluster);
    assert_eq!(cluster.run("secrets rekey").code, 64);
    let (other_key, _) = new_key();
    let run = cluster.run(&format!("secrets rekey --recipient {other_key}"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("none of your age keys"), "{}", run.stderr);

    let (recipient, key) = new_key();
    cluster.set("SOPS_AGE_KEY", &key);
    cluster.folder.write(".sops.yaml", &format!("creation_rules: [{{age: {recipient}}}]\n"));
    let run = cluster.run("secrets rekey dev --format json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json, serde_json::json!({ "written": SECRETS, "recipients": [recipient] }));
    assert!(run.stderr.contains(&recipient), "{}", run.stderr);
    let text = cluster.folder.read(SECRETS);
    assert!(sops::decrypt(&text, &parse_identities(&old).unwrap()).is_err());
    let now = decrypted(&cluster, &key).get("talos").unwrap();
    assert_eq!(talmox_yaml::emit(&now, 4), bundle);
}

#[test]
fn import_never_overwrites() {
    let source = Cluster::with_secrets();
    let plain = plain_bundle(&source);
    let encrypted = source.folder.read(SECRETS);
    for (name, text) in [("plain", &plain), ("encrypted", &encrypted)] {
        let cluster = Cluster::new();
        cluster.folder.write(KEYS, &source.folder.read(KEYS));
        cluster.folder.write("inventory/dev/secrets.yaml", text);
        for command in ["secrets init", "kubeconfig"] {
            let run = cluster.run(command);
            assert_eq!(run.code, 1);
            let hint = "`talmox secrets import inventory/dev/secrets.yaml`";
            assert!(run.stderr.contains(hint), "{}", run.stderr);
        }
        let run = cluster.run("secrets import inventory/dev/secrets.yaml");
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        assert_eq!(run.stderr.contains("unencrypted; delete it"), name == "plain");
        assert_eq!(plain_bundle(&cluster), plain);
        assert_eq!(cluster.mode(SECRETS), 0o600);
        let again = cluster.run("secrets import inventory/dev/secrets.yaml");
        assert!(again.stderr.contains("already has this bundle"), "{}", again.stderr);
    }

    let other = plain.replacen("secret: ", "secret: AAAA", 1);
    let run = source.run_with("secrets import -", &other);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("has another bundle"), "{}", run.stderr);
    assert_eq!(source.folder.read(SECRETS), encrypted);
    let broken = plain.replacen("bootstraptoken: ", "bootstraptoken: X", 1);
    let run = Cluster::new().run_with("secrets import -", &broken);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("the Talos bundle in - is invalid"), "{}", run.stderr);
}

#[test]
fn import_reads_the_config_of_a_control_plane() {
    let source = Cluster::with_secrets();
    let document = decrypted(&source, &source.folder.read(KEYS));
    let get = |path: &str| document.get_text(&format!("talos.{path}")).unwrap();
    let pair = |name: &str| {
        let (crt, key) = (get(&format!("certs.{name}.crt")), get(&format!("certs.{name}.key")));
        format!("{{crt: {}, key: {}}}", crt.expose(), key.expose())
    };
    let config = format!(
        "apiVersion: v1alpha1\nkind: HostnameConfig\n---\nversion: v1alpha1\nmachine:\n  token: {}\n  ca: {}\ncluster:\n  id: {}\n  secret: {}\n  token: {}\n  secretboxEncryptionSecret: {}\n  ca: {}\n  aggregatorCA: {}\n  serviceAccount: {{key: {}}}\n  etcd: {{ca: {}}}\n",
        get("trustdinfo.token").expose(),
        pair("os"),
        get("cluster.id").expose(),
        get("cluster.secret").expose(),
        get("secrets.bootstraptoken").expose(),
        get("secrets.secretboxencryptionsecret").expose(),
        pair("k8s"),
        pair("k8saggregator"),
        get("certs.k8sserviceaccount.key").expose(),
        pair("etcd"),
    );
    let cluster = Cluster::new();
    let run = cluster.run_with("secrets import -", &config);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(plain_bundle(&cluster), plain_bundle(&source));
    // The config of a worker lacks some of the keys.
    let worker: Vec<&str> =
        config.lines().filter(|line| !line.contains("serviceAccount")).collect();
    let run = Cluster::new().run_with("secrets import -", &worker.join("\n"));
    assert!(run.stderr.contains("lacks `certs.k8sserviceaccount`"), "{}", run.stderr);
}

#[test]
fn references_are_resolved_and_missing_ones_are_named() {
    let resolve = |cluster: &Cluster| cluster.run("secrets show --resolve --allow-commands");
    let mut cluster = Cluster::with_secrets();
    let run = resolve(&cluster);
    assert_eq!(run.code, 1);
    let message = "MISSING  proxmox.token: inventory/dev/secrets.sops.yaml has no `proxmox.token`";
    assert!(run.stdout.contains(message), "{}", run.stdout);
    cluster.run_with("secrets set proxmox.token", "hunter2");
    assert!(resolve(&cluster).stdout.contains("found    proxmox.token: secret `proxmox.token`"));

    cluster = cluster.with_token("{env: TOKEN}");
    let message = "proxmox.token: the environment variable TOKEN is not set";
    assert!(resolve(&cluster).stdout.contains(message));
    cluster.set("TOKEN", "");
    assert!(resolve(&cluster).stdout.contains("environment variable TOKEN is empty"));
    cluster.set("TOKEN", "hunter2");
    assert_eq!(resolve(&cluster).code, 0);

    cluster = cluster.with_token("{command: [./vault, proxmox]}");
    cluster.script("inventory/dev/vault", "echo run >> count; echo hunter2");
    assert_eq!(resolve(&cluster).code, 0);
    assert_eq!(cluster.folder.read("inventory/dev/count"), "run\n");
    cluster.script("inventory/dev/vault", "echo hunter2; echo locked >&2; exit 7");
    let run = resolve(&cluster);
    assert_eq!(run.code, 1);
    let message = "the command `./vault` failed (exit status: 7)";
    assert!(run.stdout.contains(message), "{}", run.stdout);
    assert!(!run.stdout.contains("hunter2") && !run.stderr.contains("hunter2"));
    cluster.script("inventory/dev/vault", "exit 0");
    assert!(resolve(&cluster).stdout.contains("output of `./vault` is empty"));
    cluster = cluster.with_token("{command: [no-such-program-here]}");
    assert!(resolve(&cluster).stdout.contains("`no-such-program-here` cannot be run"));
    // If there is no secrets file, the message contains its path.
    let run = resolve(&Cluster::new());
    assert!(
        run.stdout.contains(
            "inventory/dev/secrets.sops.yaml, which should have `proxmox.token`, does not exist"
        ),
        "{}",
        run.stdout
    );
}

#[test]
fn headscale_auth_key_overrides() {
    let mut cluster = Cluster::new().with_token("{env: HOME}");
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    let tailscale = "image: {extensions: [siderolabs/tailscale]}\ntailscale: {auth_key: {secret: tailscale.auth_key}}\n";
    cluster.folder.write("inventory/dev/cluster.yaml", &format!("{text}{tailscale}"));
    let run = cluster.run("secrets show --resolve");
    assert!(run.stdout.contains("MISSING  tailscale.auth_key"), "{}", run.stdout);
    cluster.set("HEADSCALE_AUTH_KEY", "hunter2");
    let run = cluster.run("secrets show --resolve");
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert_eq!(
        run.stderr,
        "tailscale.auth_key: using the environment variable HEADSCALE_AUTH_KEY\n"
    );
}

#[test]
fn secrets_that_the_user_could_not_decrypt_are_not_written() {
    let (other_key, _) = new_key();
    // The user has an age key, or none. No age key is created in either case.
    let mut own = Cluster::new();
    let (_, key) = new_key();
    own.folder.write("key", &key);
    own.set("SOPS_AGE_KEY_FILE", "key");
    for cluster in [own, Cluster::new()] {
        let rejected = |cluster: &Cluster, command: &str| {
            let run = cluster.run_with(command, "x");
            assert_eq!(run.code, 1, "{command}: {}", run.stderr);
            let reported = "nothing was written: none of your age keys could decrypt";
            assert!(run.stderr.contains(reported), "{command}: {}", run.stderr);
            assert!(!cluster.folder.path().join(SECRETS).exists(), "{command}");
        };
        rejected(&cluster, &format!("secrets init --recipient {other_key}"));
        let rule = format!("creation_rules: [{{age: {other_key}}}]");
        cluster.folder.write(".sops.yaml", &rule);
        let cluster = cluster.with_token("{env: HOME}");
        for command in ["secrets init", "secrets set values.a", "render"] {
            rejected(&cluster, command);
        }
    }
}

#[test]
fn a_recipient_of_low_order_is_an_error() {
    let zero = "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z";
    let mut cluster = Cluster::new();
    let run = cluster.run(&format!("secrets init --recipient {zero}"));
    assert_eq!(run.code, 64, "{}", run.stderr);
    assert!(run.stderr.contains("low order"), "{}", run.stderr);
    cluster.set("SOPS_AGE_RECIPIENTS", zero);
    let run = cluster.run("secrets init");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("low order"), "{}", run.stderr);
    assert!(!cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn no_secret_is_lost_when_several_are_set_at_once() {
    let cluster = Cluster::with_secrets();
    std::thread::scope(|scope| {
        for nth in 0..6 {
            let cluster = &cluster;
            scope.spawn(move || {
                let run = cluster.run_with(&format!("secrets set values.s{nth}"), "x");
                assert_eq!(run.code, 0, "{}", run.stderr);
            });
        }
    });
    let shown = cluster.run("secrets show").stdout;
    for nth in 0..6 {
        assert!(shown.contains(&format!("values.s{nth}")), "{nth}: {shown}");
    }
}

#[test]
fn set_waits_for_an_editor() {
    let mut cluster = Cluster::with_secrets();
    let program = env!("CARGO_BIN_EXE_talmox");
    // The editor starts a `secrets set`, which must not finish before the editor.
    let editor = cluster.script(
        "editor",
        &format!("(echo y | {program} secrets set values.set) 2> reported &\nfor n in $(seq 400); do grep -q waiting reported && break; sleep 0.05; done\necho 'values: {{edited: x}}' >> \"$1\""),
    );
    cluster.set("EDITOR", editor);
    let run = cluster.run("secrets edit");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let keys = cluster.folder.read(KEYS);
    // Both commands have finished, because they share the output pipe.
    let document = decrypted(&cluster, &keys);
    assert_eq!(document.get_text("values.edited").unwrap().expose(), "x");
    assert_eq!(document.get_text("values.set").unwrap().expose(), "y");
}

#[test]
fn set_keeps_other_values() {
    let cluster = Cluster::with_secrets();
    for (path, code) in
        [("talos.cluster.id", 64), ("a..b", 64), ("sops.mac", 64), ("values.a.b", 0), ("values", 1)]
    {
        let run = cluster.run_with(&format!("secrets set {path}"), "x\n");
        assert_eq!(run.code, code, "{path}: {}", run.stderr);
    }
    assert_eq!(cluster.run_with("secrets set values.a.b.c", "x").code, 1);
    assert_eq!(cluster.run_with("secrets set values.c", "\n").code, 1);
    assert!(cluster.run("secrets show").stdout.ends_with("other secrets: values.a.b\n"));
}

#[test]
fn one_valid_cluster_must_be_selected() {
    let cluster = Cluster::with_secrets();
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    cluster
        .folder
        .write("inventory/prod/cluster.yaml", &text.replace("10.0", "10.1").replace("-1,", "-9,"));
    let run = cluster.run("secrets show");
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("pass the name of one of them: dev, prod"), "{}", run.stderr);
    let run = cluster.run("secrets show dev");
    assert_eq!(run.code, 0, "{}", run.stderr);
    cluster.folder.write("inventory/dev/cluster.yaml", &format!("{text}typo: 1\n"));
    let run = cluster.run("secrets show dev");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("error[unknown-key]"), "{}", run.stderr);
    // Each cluster that is a single file has its own secrets file.
    cluster.folder.write("home.yaml", &text);
    let run = cluster.run("secrets show -i home.yaml");
    assert!(run.stderr.contains("there is no home.secrets.sops.yaml"), "{}", run.stderr);
}

#[test]
fn a_copied_inventory_with_the_same_secrets_is_reported() {
    let cluster = Cluster::with_secrets();
    assert!(!cluster.run("check").stderr.contains("same secrets"));
    let copy = cluster.folder.read("inventory/dev/cluster.yaml");
    let copy = copy.replace("cp-1, ip: 10.0.0.", "c, ip: 10.0.1.");
    let copy = copy.replace("wk-1, ip: 10.0.0.", "w, ip: 10.0.1.");
    let copy = copy.replace("vip: 10.0.0.", "vip: 10.0.1.");
    cluster.folder.write("inventory/copy/cluster.yaml", &copy);
    cluster.folder.write("inventory/copy/secrets.sops.yaml", &cluster.folder.read(SECRETS));
    for command in ["check", "check dev", "check copy"] {
        let run = cluster.run(command);
        let reported = run.stderr;
        assert_eq!(run.code, 0, "{reported}");
        assert!(
            reported.contains("`copy` and `dev` have the same secrets"),
            "{command}: {reported}"
        );
        assert!(reported.contains("talmox secrets init"), "{command}: {reported}");
    }
}

#[test]
fn a_value_is_prompted_for_without_echo() {
    let cluster = Cluster::with_secrets();
    let Some(mut typing) = cluster.folder.typing("secrets set proxmox.token") else { return };
    typing.wait_for("Value of proxmox.token (not echoed): ");
    typing.write("talmox@pve!ci=hunter3\x7f2\n");
    let (code, shown) = typing.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("set `proxmox.token` in "), "{shown}");
    assert!(!shown.contains("hunter") && !shown.contains("talmox@pve"), "{shown}");
    let editor = cluster.script("show", "cat \"$1\" > seen");
    let mut reader = cluster;
    reader.set("EDITOR", &editor);
    reader.run("secrets edit");
    let seen = reader.folder.read("seen");
    assert!(seen.contains("talmox@pve!ci=hunter2"), "{seen}");
    for keys in ["\n", "abc\x03"] {
        let mut typing = reader.folder.typing("secrets set values.x").unwrap();
        typing.wait_for("(not echoed): ");
        typing.write(keys);
        let (code, shown) = typing.end();
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("nothing was written"), "{shown}");
    }
}
