//! The library under test, with the interface of the oracle. Other files of this test do not call the API of the
//! library.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_talos_config::Release;
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{self, ClusterIdentity, Input, KeyPair, Options, Role};
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::validate::{self, Mode, Stage};
use talmox_yaml::Node;

use crate::options::GenCase;

/// Options that the library supports, with the names that the oracle uses.
pub(crate) const OPTIONS: &[&str] = &[
    "additional_sans",
    "allow_scheduling_on_control_planes",
    "cni",
    "debug",
    "discovery",
    "dns_domain",
    "extra_kernel_args",
    "host_dns_forward_kube_dns",
    "install_disk",
    "install_image",
    "kube_prism_port",
    "kubelet_extra_mounts",
    "kubespan",
    "local_api_server_port",
    "registry_ca_certs",
    "registry_insecure",
    "registry_mirrors",
    "sysctls",
    "user_disks",
];

/// Configs of the control plane and the worker.
pub(crate) fn generate(case: &GenCase) -> Result<[String; 2], String> {
    let input = Input {
        contract: case.contract.parse::<Contract>().map_err(|error| error.to_string())?,
        cluster_name: &case.cluster_name,
        endpoint: &case.endpoint,
        kubernetes_version: &case.kubernetes_version,
        identity: &identity(&case.secrets),
        options: &options(case),
    };
    let config = |role| match generate::generate(&input, role) {
        Ok(config) => Ok(config.encode()),
        Err(error) => Err(error.to_string()),
    };
    Ok([config(Role::ControlPlane)?, config(Role::Worker)?])
}

/// Canonical text of the patched config.
pub(crate) fn patch(machinery: &str, config: &str, patches: &[String]) -> Result<String, String> {
    let release = release(machinery);
    let patches: Result<Vec<Patch>, _> =
        patches.iter().map(|text| Patch::parse(text, release)).collect();
    let patched = patches.and_then(|patches| patch::apply(config, &patches, release));
    patched.map_err(|error| error.to_string())
}

/// Warnings; or, for a rejected config, an error that begins with the stage.
pub(crate) fn validate(machinery: &str, config: &str, mode: &str) -> Result<Vec<String>, String> {
    let mode = match mode {
        "metal" => Mode::Metal,
        "cloud" => Mode::Cloud,
        _ => Mode::Container,
    };
    let verdict = validate::validate(config, mode, release(machinery));
    match (verdict.stage, verdict.error) {
        (_, None) => Ok(verdict.warnings),
        (Stage::Decode, Some(error)) => Err(format!("decode: {error}")),
        (Stage::Validate, Some(error)) => Err(format!("validate: {error}")),
    }
}

fn release(machinery: &str) -> Release {
    Release::of(machinery).expect("the oracle has a release that the library supports")
}

fn identity(bundle: &str) -> ClusterIdentity {
    let bundle = node(bundle);
    let text = |path: &[&str]| {
        let value = path.iter().try_fold(&bundle, |node, key| node.as_map()?.get(key));
        value.and_then(Node::as_str).unwrap_or_default().to_owned()
    };
    let pair = |name: &str| KeyPair {
        crt: text(&["certs", name, "crt"]),
        key: text(&["certs", name, "key"]),
    };
    ClusterIdentity {
        cluster_id: text(&["cluster", "id"]),
        cluster_secret: text(&["cluster", "secret"]),
        bootstrap_token: text(&["secrets", "bootstraptoken"]),
        secretbox_encryption_secret: text(&["secrets", "secretboxencryptionsecret"]),
        aescbc_encryption_secret: text(&["secrets", "aescbcencryptionsecret"]),
        machine_token: text(&["trustdinfo", "token"]),
        os: pair("os"),
        kubernetes: pair("k8s"),
        aggregator: pair("k8saggregator"),
        etcd: pair("etcd"),
        service_account_key: text(&["certs", "k8sserviceaccount", "key"]),
    }
}

fn options(case: &GenCase) -> Options {
    let mut options = Options::default();
    for (name, value) in &case.options {
        let flag = || value.as_bool().expect("a flag");
        let port = || value.as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        match *name {
            "additional_sans" => options.additional_sans = texts(value),
            "allow_scheduling_on_control_planes" => {
                options.allow_scheduling_on_control_planes = flag();
            }
            "cni" => options.cni = Some(node(&value.to_string())),
            "debug" => options.debug = flag(),
            "discovery" => options.discovery = flag(),
            "dns_domain" => options.dns_domain = text(value),
            "extra_kernel_args" => options.extra_kernel_args = texts(value),
            "host_dns_forward_kube_dns" => options.host_dns_forward_kube_dns = flag(),
            "install_disk" => options.install_disk = text(value),
            "install_image" => options.install_image = text(value),
            "kube_prism_port" => options.kube_prism_port = Some(port()),
            "kubelet_extra_mounts" => {
                options.kubelet_extra_mounts = Some(node(&value.to_string()));
            }
            "kubespan" => options.kubespan = Some(flag()),
            "local_api_server_port" => options.local_api_server_port = port(),
            "registry_ca_certs" => options.registry_ca_certs = map(value, text),
            "registry_insecure" => options.registry_insecure = texts(value),
            "registry_mirrors" => options.registry_mirrors = map(value, texts),
            "sysctls" => options.sysctls = map(value, text),
            "user_disks" => options.user_disks = Some(node(&value.to_string())),
            other => panic!("{other} is in OPTIONS, but has no value here"),
        }
    }
    options
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(text).collect()
}

fn map<T>(value: &Value, item: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    let entries = value.as_object().expect("a map").iter();
    entries.map(|(key, value)| (key.clone(), item(value))).collect()
}

fn node(text: &str) -> Node {
    talmox_yaml::read(text).expect("JSON and bundles are YAML").remove(0)
}
