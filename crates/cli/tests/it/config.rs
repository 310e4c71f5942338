//! `talmox config gen | patch | validate`

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;

use insta::assert_snapshot;
use serde_json::Value as Json;
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets;
use talmox_talos_config::time::UnixTime;

use crate::support::{Folder, Run};

const GEN: &str = "config gen home https://10.0.0.20:6443 --with-secrets secrets.yaml";

/// Secrets bundle. It is generated once, because its RSA key takes a while.
fn bundle() -> &'static str {
    static BUNDLE: OnceLock<String> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let now = UnixTime::from_seconds(1_790_000_000);
        let bundle = secrets::generate(now, &mut SystemRandomness::new()).unwrap();
        bundle.to_yaml().expose().to_owned()
    })
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("secrets.yaml", bundle());
    folder
}

fn files(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Output of `config gen` for one type of file.
fn printed(folder: &Folder, args: &str) -> String {
    let run = folder.talmox(&format!("{GEN} -o - {args}"));
    assert_eq!(run.code, 0, "{args}: {}", run.stderr);
    run.stdout
}

#[test]
fn three_files_are_written_with_mode_0600() {
    let folder = folder();
    let run = folder.talmox(GEN);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert_snapshot!(run.stderr, @r"
    wrote controlplane.yaml
    wrote worker.yaml
    wrote talosconfig
    ");
    assert_eq!(files(&folder), ["controlplane.yaml", "secrets.yaml", "talosconfig", "worker.yaml"]);
    for name in ["controlplane.yaml", "worker.yaml", "talosconfig"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(folder.read("talosconfig").starts_with("context: home\ncontexts:\n    home:\n"));
    for mode in ["metal", "cloud", "container"] {
        let run = folder.talmox(&format!(
            "config validate -c controlplane.yaml --config worker.yaml --mode {mode}"
        ));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let valid = |file| format!("{file} is valid for {mode} mode\n");
        assert_eq!(run.stdout, valid("controlplane.yaml") + &valid("worker.yaml"));
    }
}

#[test]
fn every_talos_version_has_its_own_format() {
    let folder = folder();
    for minor in 8..=14 {
        for output in ["controlplane", "worker"] {
            let config = printed(&folder, &format!("-t {output} --talos-version v1.{minor}"));
            assert_eq!(config.contains("kind: HostnameConfig"), minor >= 12, "1.{minor}");
            assert_eq!(config.contains("stableHostname: true"), minor < 12, "1.{minor}");
            assert_eq!(config.contains("    network: {}\n"), minor < 13, "1.{minor}");
            assert!(config.contains("\n        disk: /dev/sda\n"), "{config}");
        }
    }
    let newest = printed(&folder, "-t worker --kubernetes-version v1.35.0");
    for version in ["v1.13", "1.14", "v1.14.0"] {
        let args = format!(
            "-t worker --kubernetes-version 1.35.0 --talos-version {version} --install-image="
        );
        assert_eq!(printed(&folder, &args), newest, "{version}");
    }
    for bad in ["v1.7", "v1.99", "latest"] {
        let run = folder.talmox(&format!("{GEN} --talos-version {bad}"));
        assert_eq!(run.code, 64, "{bad}: {}", run.stderr);
    }
    assert_eq!(files(&folder), ["secrets.yaml"]);
}

#[test]
fn versions_choose_the_images() {
    let folder = folder();
    let image = |args: &str| {
        let config = printed(&folder, &format!("-t worker {args}"));
        let lines: Vec<&str> =
            config.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
        lines.join(" ")
    };
    assert_eq!(image(""), "ghcr.io/siderolabs/kubelet:v1.36.3");
    assert_eq!(
        image("--talos-version v1.12.7"),
        "ghcr.io/siderolabs/kubelet:v1.35.4 ghcr.io/siderolabs/installer:v1.12.7"
    );
    assert_eq!(
        image("--talos-version 1.14.1 --kubernetes-version 1.36.0"),
        "ghcr.io/siderolabs/kubelet:v1.36.0 factory.talos.dev/metal-installer/\
         376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:v1.14.1"
    );
    assert_eq!(image("--install-image a/b:c"), "ghcr.io/siderolabs/kubelet:v1.36.3 a/b:c");

    let run = folder.talmox(&format!("{GEN} -o - -t worker --kubernetes-version v1.29.0"));
    assert_eq!(run.code, 0);
    assert_snapshot!(
        run.stderr,
        @"warning: Talos v1.13 runs Kubernetes v1.31 to v1.36, not v1.29.0"
    );
    assert_eq!(folder.talmox(&format!("{GEN} --kubernetes-version latest")).code, 64);
}

#[test]
fn flags_are_those_of_talosctl() {
    let folder = folder();
    let config = printed(
        &folder,
        "-t controlplane --install-disk /dev/vda --additional-sans a.lan,10.0.0.9 \
         --additional-sans b.lan --dns-domain k8s.lan --with-cluster-discovery=false \
         --with-kubespan --registry-mirror docker.io=https://m.lan --persist=false \
         --with-docs=false --with-examples=false --version v1alpha1",
    );
    for line in [
        "persist: false",
        "        disk: /dev/vda",
        "        - a.lan",
        "        - 10.0.0.9",
        "        - b.lan",
        "        dnsDomain: k8s.lan",
        "        enabled: false",
        "kind: KubeSpanConfig",
        "kind: RegistryMirrorConfig",
        "    - url: https://m.lan",
    ] {
        assert!(config.lines().any(|other| other == line), "{line}\n{config}");
    }
    for args in [
        "--with-docs",
        "--with-docs=true",
        "--with-kubespan=maybe",
        "--registry-mirror docker.io",
        "-o -",
        "-t controlplane,node",
        "--nodes 10.0.0.1",
        "--output-dir a -o b",
    ] {
        let run = folder.talmox(&format!("{GEN} {args}"));
        assert_eq!(run.code, 64, "{args}: {}", run.stderr);
    }
    for endpoint in ["10.0.0.20", "http://10.0.0.20:6443", "https://"] {
        let run = folder.talmox(&format!("config gen home {endpoint}"));
        assert_eq!(run.code, 64, "{endpoint}");
    }
    assert_eq!(files(&folder), ["secrets.yaml"]);
}

#[test]
fn output_paths_are_those_of_talosctl() {
    let folder = folder();
    for (args, written) in [
        ("-o out", &["out/controlplane.yaml", "out/worker.yaml", "out/talosconfig"][..]),
        ("-t controlplane -o deep/cp.yaml", &["deep/cp.yaml"]),
        ("-t worker -o deep", &["deep/worker.yaml"]),
        ("-t worker -o other/", &["other/worker.yaml"]),
        ("-t talosconfig --output-dir dir", &["dir/talosconfig"]),
        ("--output-types talosconfig,worker", &["worker.yaml", "talosconfig"]),
    ] {
        let run = folder.talmox(&format!("{GEN} {args} --format json"));
        assert_eq!(run.code, 0, "{args}: {}", run.stderr);
        let json: Json = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(json["written"], serde_json::json!(written), "{args}");
        for path in written {
            assert!(!folder.read(path).is_empty(), "{path}");
        }
    }
}

#[test]
fn a_usage_error_writes_no_files() {
    let folder = folder();
    folder.write("out/worker.yaml", "mine\n");
    let run = folder.talmox(&format!("{GEN} -o out"));
    assert_eq!(run.code, 1);
    assert_snapshot!(run.stderr, @r"
    error[file-exists]: out/worker.yaml exists already

    hint: nothing was written; pass --force to replace it
    ");
    folder.write("bad.yaml", "machine: {tpye: worker}\n");
    folder.write("json.yaml", "- {op: remove, path: /machine/token}\n");
    for (args, said) in [
        ("--config-patch @nowhere.yaml", "cannot read the patch nowhere.yaml"),
        ("--config-patch bad.yaml", "unknown keys"),
        ("--config-patch-control-plane bad.yaml", "unknown keys"),
        ("--config-patch https://a.lan/b.yaml", "download the patch and pass the path"),
        ("--config-patch-worker @json.yaml", "cannot patch the config of workers"),
        ("--with-secrets bad.yaml", "the Talos bundle in bad.yaml is invalid"),
        ("--with-secrets nowhere.yaml", "there is no file nowhere.yaml"),
    ] {
        let command = if args.contains("--with-secrets") {
            format!("config gen home https://10.0.0.20:6443 {args}")
        } else {
            format!("{GEN} {args}")
        };
        let run = folder.talmox(&format!("{command} --output new"));
        assert_eq!(run.code, 1, "{args}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{args}: {}", run.stderr);
        assert!(!folder.path().join("new").exists(), "{args}");
    }
    assert_eq!(folder.read("out/worker.yaml"), "mine\n");
    assert_eq!(fs::read_dir(folder.path().join("out")).unwrap().count(), 1);
    assert_eq!(folder.talmox(&format!("{GEN} -o out --force")).code, 0);
    assert!(folder.read("out/worker.yaml").starts_with("version: v1alpha1\n"));
}

#[test]
fn invalid_secrets_are_reported_without_their_values() {
    let folder = folder();
    let start = bundle().find("    bootstraptoken: ").unwrap() + "    bootstraptoken: ".len();
    let mut broken = bundle().to_owned();
    broken.replace_range(start..start + 6, "HUNTER");
    folder.write("broken.yaml", &broken);
    let run = folder.talmox("config gen home https://10.0.0.20:6443 --with-secrets broken.yaml");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("secrets.bootstraptoken: "), "{}", run.stderr);
    assert!(!run.stderr.contains("HUNTER"), "{}", run.stderr);
}

#[test]
fn new_secrets_are_generated_without_with_secrets() {
    let folder = Folder::new();
    let run = folder.talmox("config gen home https://10.0.0.20:6443");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.starts_with("generating new secrets\n"), "{}", run.stderr);
    let run = folder.talmox("config validate controlplane.yaml worker.yaml -m metal --strict");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn patches_apply_to_all_nodes_or_to_a_role() {
    let folder = folder();
    folder.write("all.yaml", "machine: {sysctls: {who: all}}\n");
    let run = folder.talmox_with(
        GEN.split(' ').chain([
            "--config-patch",
            "@all.yaml",
            "--config-patch",
            "all.yaml",
            "--config-patch-control-plane",
            r#"{"machine": {"sysctls": {"cp": "1"}}}"#,
            "--config-patch-worker",
            "machine:\n  sysctls: {who: worker}",
            "--config-patch-worker",
            "apiVersion: v1alpha1\nkind: ZswapConfig\n",
        ]),
        "",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let sysctls = |file: &str| {
        let text = folder.read(file);
        let (_, rest) = text.split_once("    sysctls:\n").unwrap();
        rest.split_once("    features:").unwrap().0.to_owned()
    };
    assert_eq!(sysctls("controlplane.yaml"), "        cp: \"1\"\n        who: all\n");
    assert_eq!(sysctls("worker.yaml"), "        who: worker\n");
    assert!(folder.read("worker.yaml").contains("kind: ZswapConfig\n"));
    assert!(!folder.read("controlplane.yaml").contains("ZswapConfig"));

    // Up to Talos 1.11 a config is one document, so JSON patches can change it.
    let json = r#"[{"op": "add", "path": "/machine/install/wipe", "value": true}]"#;
    let patched = |version| {
        let flags = ["-t", "worker", "-o", "-", "--talos-version", version];
        let args = GEN.split(' ').chain(flags).chain(["--config-patch", json]);
        folder.talmox_with(args, "")
    };
    assert!(patched("v1.11").stdout.contains("wipe: true"));
    let run = patched("v1.12");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("JSON6902 patches are not supported"), "{}", run.stderr);
}

#[test]
fn a_document_that_the_nodes_do_not_know_is_reported() {
    let folder = folder();
    folder.write("span.yaml", "apiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true\n");
    let run = folder.talmox(&format!("{GEN} --config-patch span.yaml --talos-version v1.11"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    let hint = "hint: KubeSpanConfig exists since Talos v1.13; Talos v1.11 rejects the config";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let config = printed(&folder, "-t worker --talos-version v1.11");
    folder.write("worker.yaml", &format!("{config}---\n{}", folder.read("span.yaml")));
    let run = folder.talmox("config validate worker.yaml -m metal --talos-version v1.11");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("\"KubeSpanConfig\" \"v1alpha1\": not registered"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("lint: KubeSpanConfig: KubeSpanConfig exists since Talos v1.13; "));
}

const SMALL: &str = "\
# A comment.
machine:
  type: worker
  network: {hostname: bad}
cluster:
  controlPlane: {endpoint: https://10.0.0.20:6443}
";

#[test]
fn configs_are_patched_to_stdout_or_a_file() {
    let folder = Folder::new();
    folder.write("worker.yaml", SMALL);
    folder.write("patch.yaml", "machine: {network: {hostname: good}}\n");
    let run = folder.talmox("config patch worker.yaml -p @patch.yaml");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_snapshot!(run.stdout, @"
    version: \"\"
    machine:
        type: worker
        token: \"\"
        certSANs: []
        network:
            hostname: good
    cluster:
        controlPlane:
            endpoint: https://10.0.0.20:6443
    ");
    let piped = folder.talmox_with("config patch - --patch patch.yaml -o -".split(' '), SMALL);
    assert_eq!(piped.stdout, run.stdout);
    let written = folder.talmox("config patch worker.yaml -p patch.yaml -o worker.yaml");
    assert_eq!((written.code, written.stdout.as_str()), (0, ""), "{}", written.stderr);
    assert_eq!(folder.read("worker.yaml"), run.stdout);

    folder.write("bad.yaml", "machine: {tpye: worker}\n");
    for args in ["patch worker.yaml -p bad.yaml", "patch bad.yaml", "patch nowhere.yaml"] {
        let run = folder.talmox(&format!("config {args} -o new.yaml"));
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{args}");
        assert!(!folder.path().join("new.yaml").exists(), "{args}");
    }
    assert_eq!(folder.talmox("config patch").code, 64);
}

/// Worker config without an install disk. It is valid for the mode cloud, but not for the mode metal. Its host name is
/// invalid, but Talos accepts it.
fn without_disk() -> (Folder, String) {
    let folder = folder();
    folder.write("name.yaml", "machine: {network: {hostname: -bad-}}\n");
    let flags = "-t worker --talos-version v1.11 --install-disk= --config-patch name.yaml";
    let config = printed(&folder, flags);
    folder.write("worker.yaml", &config);
    (folder, config)
}

#[test]
fn validity_depends_on_the_mode() {
    let (folder, config) = without_disk();
    let validate = |args: &str| -> Run { folder.talmox(&format!("config validate {args}")) };
    let run = validate("--config worker.yaml --mode cloud");
    assert_eq!((run.code, run.stdout.as_str()), (0, "worker.yaml is valid for cloud mode\n"));
    assert!(run.stderr.contains("lint: machine.network.hostname: "), "{}", run.stderr);
    let run = validate("-c worker.yaml -m metal");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(
        run.stderr.contains("error[config-invalid]: worker.yaml is not valid for metal mode: "),
        "{}",
        run.stderr
    );
    let piped = folder.talmox_with("config validate - -m cloud".split(' '), &config);
    assert_eq!(piped.stdout, "- is valid for cloud mode\n");

    for args in ["", "worker.yaml", "-m metal", "worker.yaml -m vm", "worker.yaml -m metal --fix"] {
        assert_eq!(validate(args).code, 64, "{args}");
    }
    assert_eq!(validate("nowhere.yaml -m metal").code, 1);
}

#[test]
fn verdicts_are_available_as_json() {
    let (folder, _) = without_disk();
    folder.write("bad.yaml", "machine: {tpye: worker}\n");
    let run = folder.talmox("config validate worker.yaml bad.yaml -m cloud --format json");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let json: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["ok"], false);
    let [worker, bad] = [&json["files"][0], &json["files"][1]];
    assert_eq!((&worker["valid"], &worker["stage"]), (&Json::Bool(true), &"validate".into()));
    assert_eq!(worker["lints"][0]["path"], "machine.network.hostname");
    assert_eq!((&bad["valid"], &bad["stage"]), (&Json::Bool(false), &"decode".into()));
    assert!(bad["error"].as_str().unwrap().contains("tpye"), "{bad}");
}

#[test]
fn patches_are_read_in_the_format_of_the_given_version() {
    let folder = folder();
    let discard =
        "apiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\ntrim: {enabled: true}\n";
    folder.write("trim.yaml", discard);
    let made = |version: &str| {
        folder.talmox(&format!(
            "{GEN} -t worker -o - --config-patch trim.yaml --talos-version {version}"
        ))
    };
    let run = made("v1.14.0");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("trim:\n    enabled: true\n"), "{}", run.stdout);
    let run = made("v1.13.6");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("unknown keys found during decoding:"), "{}", run.stderr);
}
