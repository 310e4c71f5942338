//! Random calls of the generator.

use std::fmt;

use serde_json::{Value, json};

use crate::random::Random;

/// One call of `gen config`: the varied input, in a form that can be reduced.
#[derive(Debug, Clone)]
pub(crate) struct GenCase {
    pub(crate) contract: String,
    pub(crate) secrets: String,
    pub(crate) cluster_name: String,
    pub(crate) endpoint: String,
    pub(crate) kubernetes_version: String,
    /// Names and values of the options. The names are those of the oracle's `gen` request.
    pub(crate) options: Vec<(&'static str, Value)>,
}

/// Names that are strings in the request, but would have another type in YAML.
const NAMES: &[&str] = &[
    "home",
    "base",
    "a.b",
    "123",
    "0x10",
    "1e3",
    "true",
    "on",
    "No",
    "~",
    "null",
    "",
    "my cluster",
    "ünï",
    "- x",
    "k: v",
    "a:",
    "'q'",
    "\"q\"",
    "2020-01-01",
    "#c",
    "a #c",
    "@at",
    "%p",
    "*a",
    "&b",
    "!t",
    "[x",
    "{x",
    "1_000",
    "0644",
    ".5",
    " lead",
    "trail ",
    "a\nb",
    "tab\tbed",
    "x\\y",
    "a-very-long-cluster-name-that-goes-on-and-on-well-past-eighty-columns-because-no-line-is-ever-folded with a space here and there to tempt it",
];

const ENDPOINTS: &[&str] = &[
    "https://10.0.0.20:6443",
    "https://k8s.example.org:6443",
    "https://[fd00::20]:6443",
    "https://host",
    "https://host/",
    "https://host:443/path",
    "https://HOST.Example:6443",
    "https://user@host:6443",
    "https://host:6443?x=1#f",
    "https://h%41st:6443",
    "https://hö.example:6443",
    "10.0.0.20",
    "k8s.example.org",
    "fd00::20",
    "2001:db8::20",
    "",
    "10.0.0.20:6443",
    "host:6443",
    "https://a b:6443",
    "https://h:port",
    "https://[fd00::20:6443",
    "https://h/%zz",
    "http://10.0.0.20:8080/a b",
    "://x",
    "https://[fe80::1%25eth0]:6443",
];

const VERSIONS: &[&str] = &["1.28.0", "1.33.1", "1.34.0-rc.1", "1.36.2", "", "v1.34.1"];

/// Contracts in several notations. `N` is the minor version.
const CONTRACTS: &[&str] = &[
    "v1.N",
    "v1.N",
    "v1.N",
    "v1.N",
    "v1.N",
    "v1.N",
    "v1.N",
    "1.N",
    "1.N",
    "1.N",
    "v1.N.3",
    "v1.N.3",
    "v1.N.3",
    "1.N.0-alpha.1",
    "v1.N.2-4-gabcdef",
    "v1.N.x",
    "v1",
    "latest",
];

const SANS: &[&str] =
    &["10.0.0.20", "fd00::20", "k8s.example.org", "10", "*.example.org", "off", "127.0.0.1"];
const HOSTS: &[&str] =
    &["docker.io", "ghcr.io", "registry.k8s.io", "*", "10.0.0.9:5000", "quay.io"];
const MIRRORS: &[&str] = &[
    "https://mirror.example",
    "http://10.0.0.9:5000/v2/",
    "https://m.example/a?b=c&d",
    "https://[fd00::9]:5000",
    "mirror.example",
    "http://[::1",
    "https://mirror.example/%zz",
    "10.0.0.9:5000",
];
const SYSCTLS: &[&str] =
    &["net.core.somaxconn", "vm.nr_hugepages", "a", "on", "1", "net.ipv4.ip_forward"];
const VALUES: &[&str] = &[
    "1",
    "65535",
    "",
    "on",
    "0644",
    "text",
    "1e3",
    "a b",
    "~",
    "- x",
    "null",
    "2020-01-01",
    "a\nb\n",
];

/// Random value of an option of the oracle. The library may support fewer options: see `library::OPTIONS`.
fn option(random: &mut Random, name: &str) -> Value {
    match name {
        "install_disk" => {
            json!(random.pick(&["/dev/sda", "/dev/vda", "/dev/disk/by-id/x", "", "sda"]))
        }
        "install_image" => {
            json!(random.pick(&["factory.example/nocloud-installer/abc:v1.12.0", "", "x", "1e3"]))
        }
        "extra_kernel_args" => {
            json!(random.some(&["foo=bar", "-selinux", "net.ifnames=0", "", "on", "a b"], 3))
        }
        "additional_sans" => json!(random.some(SANS, 4)),
        "dns_domain" => json!(random.pick(&["cluster.local", "corp.local", "", "1e3"])),
        "sysctls" => map(random, SYSCTLS, |random| json!(random.pick(VALUES))),
        "kubelet_extra_mounts" => {
            Value::Array((0..random.below(3)).map(|_| mount(random)).collect())
        }
        "registry_mirrors" => map(random, HOSTS, |random| json!(random.some(MIRRORS, 2))),
        "registry_ca_certs" => map(random, HOSTS, |random| {
            json!(
                random
                    .pick(&["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
            )
        }),
        "registry_insecure" => json!(random.some(HOSTS, 2)),
        "local_api_server_port" => json!(random.pick(&[0, 443, 5443, 7445])),
        "cni" => random.pick(&[
            json!({"name": "none"}),
            json!({"name": "flannel"}),
            json!({"name": "custom", "urls": ["https://example.com/cni.yaml", "x"]}),
            json!({"name": "custom", "urls": []}),
            json!({"name": "flannel", "flannel": {"extraArgs": ["--iface=eth0"]}}),
        ]),
        "kube_prism_port" => json!(random.pick(&[0, 7445, 7446])),
        "user_disks" => {
            json!([{"device": "/dev/sdb", "partitions": [{"mountpoint": "/var/mnt/a", "size": random.pick(&[0, 1000, 10_000_000_000_u64])}]}])
        }
        "allow_scheduling_on_control_planes"
        | "debug"
        | "discovery"
        | "host_dns_forward_kube_dns"
        | "kubespan" => json!(random.chance(60)),
        other => panic!("no values for option {other}"),
    }
}

fn map(random: &mut Random, keys: &[&str], mut value: impl FnMut(&mut Random) -> Value) -> Value {
    let keys = random.some(keys, 3);
    keys.into_iter()
        .map(|key| (key.to_owned(), value(random)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn mount(random: &mut Random) -> Value {
    let mut mount = json!({"destination": random.pick(&["/var/opt", "/var/lib/longhorn", "0644"]), "source": random.pick(&["/var/opt", ""])});
    if random.chance(70) {
        mount["type"] = json!("bind");
    }
    if random.chance(70) {
        mount["options"] = json!(random.some(&["bind", "rshared", "rw"], 3));
    }
    if random.chance(20) {
        mount["uidMappings"] = json!([{"containerID": 0, "hostID": 1000, "size": random.below(2)}]);
    }
    mount
}

impl GenCase {
    /// Random case for a machinery with the minor version `minor`, with options from `known`.
    pub(crate) fn random(
        random: &mut Random,
        minor: u32,
        secrets: &str,
        known: &[&'static str],
    ) -> Self {
        let contracts = usize::try_from(minor - 7).expect("invariant: small");
        let contract_minor = (8 + random.below(contracts)).to_string();
        // Most endpoints are valid, because an invalid endpoint hides all other differences.
        let endpoints = if random.chance(60) { &ENDPOINTS[..3] } else { ENDPOINTS };
        Self {
            contract: random.pick(CONTRACTS).replace('N', &contract_minor),
            secrets: vary_secrets(random, secrets),
            cluster_name: random.pick(NAMES).to_owned(),
            endpoint: random.pick(endpoints).to_owned(),
            kubernetes_version: random.pick(VERSIONS).to_owned(),
            options: known
                .iter()
                .filter_map(|name| random.chance(35).then_some(*name))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|name| (name, option(random, name)))
                .collect(),
        }
    }

    /// Request for the oracle.
    pub(crate) fn request(&self) -> Value {
        let options: serde_json::Map<_, _> =
            self.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        json!({
            "op": "gen",
            "contract": self.contract,
            "secrets": self.secrets,
            "cluster_name": self.cluster_name,
            "endpoint": self.endpoint,
            "kubernetes_version": self.kubernetes_version,
            "options": options,
        })
    }

    /// Cases that are slightly simpler than this one.
    pub(crate) fn simpler(&self, plain_secrets: &str) -> Vec<Self> {
        let mut candidates: Vec<Self> = (0..self.options.len())
            .map(|gone| {
                let mut case = self.clone();
                case.options.remove(gone);
                case
            })
            .collect();
        for (at, (_, value)) in self.options.iter().enumerate() {
            candidates.extend(smaller_values(value).into_iter().map(|smaller| {
                let mut case = self.clone();
                case.options[at].1 = smaller;
                case
            }));
        }
        let plain = |change: fn(&mut Self)| {
            let mut case = self.clone();
            change(&mut case);
            case
        };
        if self.cluster_name != "home" {
            candidates.push(plain(|case| "home".clone_into(&mut case.cluster_name)));
        }
        if self.endpoint != ENDPOINTS[0] {
            candidates.push(plain(|case| ENDPOINTS[0].clone_into(&mut case.endpoint)));
        }
        if self.kubernetes_version != VERSIONS[0] {
            candidates.push(plain(|case| {
                VERSIONS[0].clone_into(&mut case.kubernetes_version);
            }));
        }
        if self.secrets != plain_secrets {
            candidates.push(Self { secrets: plain_secrets.to_owned(), ..self.clone() });
        }
        for contract in ["v1.8", "v1.12", "v1.13"] {
            // Only contracts that are earlier in this list are candidates. Otherwise the reduction would never end.
            if self.contract == contract {
                break;
            }
            candidates.push(Self { contract: contract.to_owned(), ..self.clone() });
        }
        candidates
    }
}

/// Copies of a list or map, each without one of its entries.
fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => (0..items.len())
            .map(|gone| {
                let mut items = items.clone();
                items.remove(gone);
                Value::Array(items)
            })
            .collect(),
        Value::Object(entries) => entries
            .keys()
            .map(|gone| {
                let mut entries = entries.clone();
                entries.remove(gone);
                Value::Object(entries)
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Varies the tokens. Tokens are random texts, but `123456.0123…` is a float in YAML and must be quoted.
fn vary_secrets(random: &mut Random, secrets: &str) -> String {
    const TOKENS: &[&str] = &[
        "abcdef.0123456789abcdef",
        "123456.0123456789012345",
        "000000.0000000000000000",
        "1e1234.0000000000000000",
        "0x1234.5678901234567890",
    ];
    const IDS: &[&str] = &["AAAA=", "1234", "=", "-_-_", "0644", "on"];
    let mut varied = String::new();
    for line in secrets.lines() {
        let replaced = match line.trim_start().split_once(": ") {
            Some((key @ ("token" | "bootstraptoken"), _)) if random.chance(50) => {
                Some((key, random.pick(TOKENS)))
            }
            Some((key @ ("id" | "secret"), _)) if random.chance(30) => {
                Some((key, random.pick(IDS)))
            }
            _ => None,
        };
        match replaced {
            Some((key, value)) => varied.push_str(&format!("    {key}: '{value}'\n")),
            None => varied.push_str(&format!("{line}\n")),
        }
    }
    varied
}

impl fmt::Display for GenCase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut request = self.request();
        // The keys of a bundle do not explain a difference, so only the varied values are printed.
        let varied: Vec<&str> =
            self.secrets.lines().filter(|line| line.contains(": '")).map(str::trim).collect();
        request["secrets"] = json!(varied);
        write!(out, "{request}")
    }
}
