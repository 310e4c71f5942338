//! `talmox node`

use std::time::Duration;

use talmox_plan::ownership::SmbiosUuid;
use talmox_talos_config::pki::{KeyKind, PrivateKey};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets::generate_with;

use crate::support::{Cluster, Folder, Run};
use crate::talos_node::{NodeIdentity, TalosNode, now};

const DAY: Duration = Duration::from_hours(24);

/// Configured node, and a folder with a talosconfig that the node accepts.
fn configured() -> (TalosNode, Folder) {
    let identity = NodeIdentity::configured();
    let folder = Folder::new();
    folder.write("talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
    (TalosNode::start(&identity), folder)
}

fn run(node: &TalosNode, folder: &Folder, command: &str) -> Run {
    let command = command.replace("NODE", &node.at.to_string());
    folder.talmox(&format!("node {command} --talosconfig talosconfig"))
}

#[track_caller]
fn fails(run: &Run, words: &[&str]) {
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("\nhint: "), "{}", run.stderr);
    for words in words {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
}

#[test]
fn resources_are_shown_in_short_and_in_full() {
    let (node, folder) = configured();
    let members = run(&node, &folder, "get NODE members");
    assert_eq!(members.code, 0, "{}", members.stderr);
    assert_eq!(
        members.stdout,
        "\
NODE       NAMESPACE  TYPE    ID    VERSION  HOSTNAME  ADDRESSES
127.0.0.1  cluster    Member  cp-1  3        cp-1      [\"10.0.0.11\"]
127.0.0.1  cluster    Member  wk-1  3        wk-1      [\"10.0.0.21\"]
"
    );
    let status = run(&node, &folder, "get NODE machinestatus machine --yaml");
    assert_eq!(
        status.stdout,
        "\
node: 127.0.0.1
metadata:
    namespace: runtime
    type: MachineStatuses.runtime.talos.dev
    id: machine
    version: 3
    owner: runtime.MachineStatusController
    phase: running
    created: 2026-01-01T00:00:00Z
    updated: 2026-01-01T00:01:00Z
    labels:
        talos.dev/a: b
    finalizers:
        - runtime.OtherController
spec:
    stage: running
    status:
        ready: true
        unmetConditions: []
"
    );
    let status = run(&node, &folder, "get NODE ms machine --format json");
    let json: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "node": "127.0.0.1",
            "metadata": {
                "namespace": "runtime",
                "type": "MachineStatuses.runtime.talos.dev",
                "id": "machine",
                "version": 3,
                "owner": "runtime.MachineStatusController",
                "phase": "running",
                "created": "2026-01-01T00:00:00Z",
                "updated": "2026-01-01T00:01:00Z",
                "labels": {"talos.dev/a": "b"},
                "finalizers": ["runtime.OtherController"],
            },
            "spec": {"stage": "running", "status": {"ready": true, "unmetConditions": []}},
        })
    );
    // A spec with several documents is printed completely.
    let many = run(&node, &folder, "get NODE ms many --yaml").stdout;
    assert!(many.contains("    owner:\n    phase: running\n"), "{many}");
    assert!(many.ends_with("spec: |\n    stage: booting\n    ---\n    kind: More\n"), "{many}");
    let many = run(&node, &folder, "get NODE ms many --format json").stdout;
    let json: serde_json::Value = serde_json::from_str(&many).unwrap();
    assert_eq!(json["spec"], "stage: booting\n---\nkind: More\n");
    assert!(json["metadata"]["owner"].is_null(), "{json}");
    let members = run(&node, &folder, "get NODE member --namespace other --format json");
    let json: serde_json::Value = serde_json::from_str(&members.stdout).unwrap();
    let metadata = &json[1]["metadata"];
    assert_eq!((&metadata["id"], &metadata["namespace"]), (&"wk-1".into(), &"other".into()));
    // With the admin role, the table shows no content, because the content may contain keys.
    let hidden = run(&node, &folder, "get NODE members --admin");
    assert!(!hidden.stdout.contains("10.0.0.11"), "{}", hidden.stdout);
}

#[test]
fn unknown_resource_types_are_looked_up_on_the_node() {
    let (node, folder) = configured();
    let specs = run(&node, &folder, "get NODE etcdspecs");
    // If the column definitions cannot be read, the table shows the spec in short form.
    assert!(specs.stdout.contains("EtcdSpecs  etcd  3        name: cp-1"), "{}", specs.stdout);
    let several = run(&node, &folder, "get NODE es");
    assert_eq!(several.code, 64);
    assert!(
        several.stderr.contains("EtcdSpecs.etcd.talos.dev, ExtensionServices"),
        "{}",
        several.stderr
    );
    let none = run(&node, &folder, "get NODE unicorns");
    assert_eq!(none.code, 64);
    assert!(none.stderr.contains("has no resource kind `unicorns`"), "{}", none.stderr);
    let at = node.at;
    let list = format!(
        "hint: `talmox node get {at} resourcedefinitions --talosconfig talosconfig` lists all kinds"
    );
    assert!(none.stderr.contains(&list), "{}", none.stderr);
    let open = TalosNode::start(&NodeIdentity::maintenance());
    let none = folder.talmox(&format!("node get {} unicorns --insecure", open.at));
    let list = format!("`talmox node get {} resourcedefinitions --insecure` lists", open.at);
    assert!(none.stderr.contains(&list), "{}", none.stderr);
    // The address of the node is in the inventory, so the command in the hint needs the option `-i`.
    let inventory = "talos_version: v1.11.2\nnetwork: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}\n\
                     proxmox: {endpoint: https://pve:8006, token: {env: TOKEN}, node: pve}\n\
                     controlplane:\n  - {name: cp-1, ip: 10.0.0.11}\n";
    folder.write("a b/dev/cluster.yaml", inventory);
    let words = ["node", "get", &at.to_string(), "unicorns", "-i", "a b/dev"];
    let none = folder.talmox_with(words.into_iter().chain(["--talosconfig", "talosconfig"]), "");
    let list = format!(
        "`talmox node get {at} resourcedefinitions --inventory 'a b/dev' --talosconfig talosconfig` lists"
    );
    assert!(none.stderr.contains(&list), "{}", none.stderr);
    let missing = run(&node, &folder, "get NODE members cp-9");
    let list = format!("`talmox node get {at} members --talosconfig talosconfig` lists them");
    fails(&missing, &["has no `cp-9` among its Members.cluster.talos.dev", &list]);
    let rejected = run(&node, &folder, "get NODE machineconfig v1alpha1");
    fails(&rejected, &["not authorized", "the role of the talosconfig is not enough"]);
    let lacking = run(&node, &folder, "get NODE diagnostics");
    fails(
        &lacking,
        &["\"Diagnostics.runtime.talos.dev\" is not supported", "does not have this kind"],
    );
    assert_eq!(run(&node, &folder, "get NODE members --yaml --format json").code, 64);
}

#[test]
fn services_and_logs_are_shown() {
    let (node, folder) = configured();
    let services = run(&node, &folder, "services NODE");
    assert_eq!(
        services.stdout,
        "\
SERVICE  STATE      HEALTH  LAST MESSAGE
etcd     Preparing  ?       Running pre state
kubelet  Running    good    Health check successful
",
        "{}",
        services.stderr
    );
    let services = run(&node, &folder, "services NODE --format json");
    let json: serde_json::Value = serde_json::from_str(&services.stdout).unwrap();
    assert_eq!((&json[0]["healthy"], &json[1]["healthy"]), (&().into(), &true.into()));
    let log = run(&node, &folder, "logs NODE etcd --tail 5");
    assert_eq!(log.stdout, "system etcd\n5 false\n");
    let log = run(&node, &folder, "logs NODE kube-system/x:y -k --follow");
    assert_eq!(log.stdout, "k8s.io kube-system/x:y\n-1 true\n");
    let log = run(&node, &folder, "dmesg NODE");
    assert_eq!(log.stdout, "kern: info: Linux version 6.18\n");
    let none = run(&node, &folder, "logs NODE none");
    fails(&none, &["log \"none\" was not registered (Unknown)", "talmox node services 127.0.0.1:"]);
    let none = run(&node, &folder, "logs NODE -k kube-system/none:x");
    fails(&none, &["container \"kube-system/none:x\" not found", "NAMESPACE/POD:CONTAINER"]);
}

#[test]
fn an_interrupted_log_stream_is_reported() {
    let (node, folder) = configured();
    let broken = run(&node, &folder, "dmesg NODE --follow");
    fails(&broken, &["was interrupted: the connection was lost\n", "may be rebooting"]);
    assert!(!broken.stderr.contains("may have been executed"), "{}", broken.stderr);
}

#[test]
fn a_config_is_applied_in_maintenance_mode() {
    let node = TalosNode::start(&NodeIdentity::maintenance());
    let folder = Folder::new();
    folder.write("config.yaml", "token: secret-of-mine\n");
    let at = node.at;
    let apply =
        |more: &str| folder.talmox(&format!("node apply config.yaml --insecure {at} {more}"));
    let dry = apply("--dry-run");
    assert_eq!((dry.code, dry.stdout.as_str()), (0, ""), "{}", dry.stderr);
    assert_eq!(
        dry.stderr,
        format!(
            "warning: too little memory\n{at} would apply the config without a reboot (mode auto; the \
             node uses no-reboot); nothing was changed\n"
        )
    );
    let done = apply("--mode reboot --format json");
    let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&json["applied"], &json["mode"]), (&true.into(), &"no-reboot".into()));
    assert_eq!((&json["requested_mode"], &json["reverts_in"]), (&"reboot".into(), &().into()));
    assert!(!format!("{}{}", done.stdout, done.stderr).contains("secret-of-mine"));
    assert_eq!(apply("--details").stdout, "diff: token: secret-of-mine\n");
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    fails(&apply(&format!("--fingerprint {other}")), &["does not have the pinned key", "console"]);
    assert_eq!(
        *node.applied.lock().unwrap(),
        [
            "Auto true token: secret-of-mine\n",
            "Reboot false token: secret-of-mine\n",
            "Auto false token: secret-of-mine\n"
        ]
    );
    folder.write("config.yaml", "bad: true\n");
    let rejected = apply("");
    assert_eq!(rejected.code, 1);
    assert!(rejected.stderr.contains("configuration validation failed"), "{}", rejected.stderr);
    for usage in ["--try-for 5m", "--fingerprint AB:CD", "--mode soon"] {
        assert_eq!(apply(usage).code, 64, "{usage}");
    }
}

#[test]
fn apply_reports_when_the_config_takes_effect() {
    let (node, folder) = configured();
    folder.write("config.yaml", "token: secret-of-mine\n");
    let apply = |more: &str| run(&node, &folder, &format!("apply config.yaml NODE {more}"));
    let said = |run: Run| {
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("secret-of-mine"));
        run.stderr
    };
    let staged = said(apply("--mode staged"));
    assert!(
        staged.contains("stored the config; it takes effect at the next boot (mode staged)\n"),
        "{staged}"
    );
    let tried = said(apply("--mode try"));
    assert!(
        tried.contains("it reverts in 1m0s unless it is applied with another mode (mode try)\n"),
        "{tried}"
    );
    let tried = said(apply("--mode try --try-for 5m30s"));
    assert!(tried.contains("it reverts in 5m30s unless"), "{tried}");
    let json = apply("--mode try --format json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["mode"], &json["reverts_in"]), (&"try".into(), &"1m0s".into()));
    // The answer of a node in maintenance mode with Talos 1.12 has no mode.
    folder.write("config.yaml", "old: secret-of-mine\n");
    let old = said(apply(""));
    assert!(
        old.ends_with(
            "accepted the config (mode auto; the node did not report the mode it uses)\n"
        ),
        "{old}"
    );
    folder.write("config.yaml", "reboot: secret-of-mine\n");
    for (mode, words) in [("no-reboot", "needs a reboot: use"), ("try", "cannot be tried: use")] {
        let rejected = apply(&format!("--mode {mode}"));
        fails(&rejected, &["can't be applied in immediate mode", words, "--mode staged"]);
        assert!(!rejected.stderr.contains("secret-of-mine"), "{}", rejected.stderr);
    }
}

#[test]
fn calls_are_retried_while_the_api_restarts() {
    let identity = NodeIdentity::configured().hanging_up(3);
    let folder = Folder::new();
    folder.write("talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
    let node = TalosNode::start(&identity);
    let services = run(&node, &folder, "services NODE");
    assert_eq!((services.code, services.stderr.as_str()), (0, ""));
    // The config is sent only once, because no request was sent over the closed connections.
    let open = TalosNode::start(&NodeIdentity::maintenance().hanging_up(2));
    folder.write("config.yaml", "machine: {}\n");
    let applied = folder.talmox(&format!("node apply config.yaml {} --insecure", open.at));
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert_eq!(open.applied.lock().unwrap().len(), 1);
}

#[test]
fn an_unreachable_node_has_a_plain_error_message() {
    let identity = NodeIdentity::configured().hanging_up(1000);
    let folder = Folder::new();
    folder.write("talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
    let node = TalosNode::start(&identity);
    let closes = "closed the connection before it answered\n";
    let switching = "the node is switching from maintenance mode to its configured API";
    fails(&run(&node, &folder, "services NODE"), &[closes, switching, "retry in a few seconds"]);
    let open = folder.talmox(&format!("node services {} --insecure", node.at));
    fails(&open, &[closes, switching, "retry in a few seconds"]);

    let identity = NodeIdentity::configured().starting();
    folder.write("talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
    let node = TalosNode::start(&identity);
    let starting = run(&node, &folder, "services NODE");
    fails(
        &starting,
        &["is not possible yet: machined on the node does not accept connections\n", "starting"],
    );
    assert!(!starting.stderr.contains("transport"), "{}", starting.stderr);
}

#[test]
fn a_rejected_talosconfig_is_named() {
    let identity = NodeIdentity::configured().for_others();
    let folder = Folder::new();
    folder.write("my/talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
    let node = TalosNode::start(&identity);
    let ask = folder.talmox(&format!("node services {} --talosconfig my/talosconfig", node.at));
    fails(
        &ask,
        &["rejects the client certificate of context `dev` in my/talosconfig", "--context"],
    );
    assert!(!ask.stderr.contains("secrets bundle"), "{}", ask.stderr);
}

#[test]
fn another_machine_at_the_address_is_named() {
    let (node, folder) = configured();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ask = |at: std::net::SocketAddr| {
        folder.talmox(&format!("node services {at} --talosconfig talosconfig"))
    };
    fails(&ask(closed), &["nothing answers", "cannot connect", "the port is closed", "port 50000"]);
    let maintenance = TalosNode::start(&NodeIdentity::maintenance());
    fails(&ask(maintenance.at), &["a node in maintenance mode", "--insecure 127.0.0.1"]);
    let other_machine = TalosNode::start(&NodeIdentity::configured());
    fails(
        &ask(other_machine.at),
        &["a node of another cluster", "context `dev` of talosconfig is for another cluster"],
    );
    let open = folder.talmox(&format!("node services {} --insecure", node.at));
    fails(&open, &["requires a client certificate", "has a config already"]);

    for (from, words) in [
        (now().minus(DAY * 3), ["the certificate of the node expired", "clock"]),
        (now().plus(DAY), ["the clock of the node is at least", "NTP"]),
    ] {
        let identity = NodeIdentity::configured().from(from);
        folder.write("talosconfig", &identity.talosconfig(now().minus(DAY / 2)));
        let node = TalosNode::start(&identity);
        fails(&ask(node.at), &words);
    }
    let identity = NodeIdentity::configured();
    folder.write("talosconfig", &identity.talosconfig(now().minus(DAY * 3)));
    let node = TalosNode::start(&identity);
    fails(&ask(node.at), &["of context `dev` in talosconfig expired at", "talmox talosconfig"]);

    folder.write("talosconfig", "context: none\ncontexts: {}\n");
    fails(&ask(node.at), &["no context `none`", "--context"]);
}

#[test]
fn addresses_and_credentials_come_from_the_inventory() {
    let cluster = Cluster::new();
    let mut randomness = SystemRandomness::new();
    let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut randomness);
    let bundle = generate_with(&key, now().minus(DAY), &mut randomness).unwrap();
    cluster.folder.write("bundle.yaml", &talmox_yaml::emit(&bundle.to_node(), 4));
    let run = cluster.run("secrets import bundle.yaml");
    assert_eq!(run.code, 0, "{}", run.stderr);
    // As in a lab, `reach` maps the address of the node. The certificate contains the original address.
    let other_machine = TalosNode::start(&NodeIdentity::configured());
    let text = cluster.folder.read("inventory/dev/cluster.yaml");
    let reach = format!("{text}reach: {{10.0.0.11: \"{}\"}}\n", other_machine.at);
    cluster.folder.write("inventory/dev/cluster.yaml", &reach);
    let run = cluster.run("node services cp-1");
    fails(
        &run,
        &["no connection to cp-1 (10.0.0.11:50000)", "another cluster", "secrets.sops.yaml"],
    );

    let own_node = TalosNode::start(&NodeIdentity::of(&bundle));
    let reach = format!("{text}reach: {{10.0.0.11: \"{}\"}}\n", own_node.at);
    cluster.folder.write("inventory/dev/cluster.yaml", &reach);
    for name in ["cp-1", "10.0.0.11"] {
        let run = cluster.run(&format!("node get {name} members --cluster dev"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains("wk-1"), "{}", run.stdout);
    }
    cluster.folder.write("config.yaml", "machine: {}\n");
    let run = cluster.run("node apply config.yaml cp-1 --mode no-reboot");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(*own_node.applied.lock().unwrap(), ["NoReboot false machine: {}\n"]);
    // Without Proxmox the cluster cannot be locked, but the config is still sent.
    let reported = "warning: the cluster is not locked: ";
    assert!(run.stderr.contains(reported), "{}", run.stderr);
    assert!(
        run.stderr.contains("Make sure that no `up` or `destroy` runs on it"),
        "{}",
        run.stderr
    );

    // A config for another node is only sent with --force.
    let worker = "machine: {type: worker}\n---\nkind: HostnameConfig\nhostname: cp-1\n";
    cluster.folder.write("worker.yaml", worker);
    let other = "machine: {type: controlplane, network: {hostname: cp-2}}\n";
    cluster.folder.write("other.yaml", other);
    let own = "machine: {type: controlplane}\n---\nkind: HostnameConfig\nhostname: CP-1.lan\n";
    cluster.folder.write("own.yaml", own);
    let give = |what: &str| cluster.run(&format!("node apply {what}"));
    fails(&give("worker.yaml cp-1"), &["is not for `cp-1`: it is a worker's", "--force"]);
    fails(&give("other.yaml cp-1 --dry-run"), &["its host name is `cp-2`", "nothing was sent"]);
    fails(&give("own.yaml wk-1 --insecure"), &["is not for `wk-1`: its host name is `CP-1.lan`"]);
    assert_eq!(own_node.applied.lock().unwrap().len(), 1);
    for what in ["own.yaml cp-1", "other.yaml 10.0.0.11", "worker.yaml cp-1 --force"] {
        let run = give(what);
        assert_eq!(run.code, 0, "{what}: {}", run.stderr);
    }
    assert_eq!(own_node.applied.lock().unwrap().len(), 4);

    let run = cluster.run("node services cp-7");
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("nodes: cp-1, wk-1"), "{}", run.stderr);
    // With `--insecure`, the address of the node is read from the inventory.
    let empty = TalosNode::start(&NodeIdentity::maintenance());
    let reach = format!("{text}reach: {{10.0.0.21: \"{}\"}}\n", empty.at);
    cluster.folder.write("inventory/dev/cluster.yaml", &reach);
    let apply = |node: &str| {
        cluster.run(&format!("node apply config.yaml {node} --insecure --cluster dev"))
    };
    // If a node name is passed, the machine must be the VM of that node.
    let uuid = SmbiosUuid::of(&bundle.cluster.id, "wk-1").to_string();
    *empty.machine.lock().unwrap() = (uuid.clone(), "02:00:00:00:00:99".to_owned());
    fails(&apply("wk-1"), &["is not the VM of `wk-1`: it has no network card", "nothing was sent"]);
    let mac = apply("wk-1").stderr.split("network card ").nth(1).unwrap()[..17].to_owned();
    *empty.machine.lock().unwrap() = ("of-another".to_owned(), mac.clone());
    fails(&apply("wk-1"), &["is not the VM of `wk-1`: its SMBIOS UUID is of-another"]);
    assert_eq!(empty.applied.lock().unwrap().len(), 0);
    let run = apply("10.0.0.21");
    assert_eq!((run.code, empty.applied.lock().unwrap().len()), (0, 1), "{}", run.stderr);
    *empty.machine.lock().unwrap() = (uuid, mac);
    let run = apply("wk-1");
    assert_eq!((run.code, empty.applied.lock().unwrap().len()), (0, 2), "{}", run.stderr);
}
