//! Runs every case of the Talos vectors in `$TALMOX_TALOS_VECTORS` and prints the names of the cases that fail.
//!
//! The vectors are not part of the project, because they contain data of other projects. Without the variable no case
//! is run, which is an error in CI. An argument selects the cases whose ID contains it. With `$TALMOX_VECTORS_TEXTS`,
//! the texts of validation are also compared.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a separate test program: it prints, and the environment names its input"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value as Json;
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{ClusterIdentity, Input, Options, Role, generate};
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::schematic::Schematic;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::validate::{Mode, Stage, validate};
use talmox_talos_config::{Config, Release};

const VARIABLE: &str = "TALMOX_TALOS_VECTORS";

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let Some(folder) = env::var_os(VARIABLE) else {
        eprintln!("SKIPPED: {VARIABLE} is not set, no Talos vector was run");
        let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
        return ExitCode::from(u8::from(in_ci));
    };
    let vectors = Vectors { folder: PathBuf::from(folder) };
    let only = env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    for (id, outcome) in vectors.outcomes(only.as_deref()) {
        match outcome {
            Ok(()) => passed += 1,
            Err(reason) => {
                failed += 1;
                println!("FAILED {id}\n{}", indented(&reason));
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0 || passed == 0))
}

struct Vectors {
    folder: PathBuf,
}

impl Vectors {
    fn outcomes(&self, only: Option<&str>) -> Vec<(String, Outcome)> {
        let wanted = |id: &str| only.is_none_or(|only| id.contains(only));
        let cases = match self.read("cases.json").map(|text| serde_json::from_str(&text)) {
            Ok(Ok(Json::Array(cases))) => cases,
            Ok(other) => return vec![("cases.json".to_owned(), Err(format!("{other:?}")))],
            Err(reason) => return vec![("cases.json".to_owned(), Err(reason))],
        };
        let mut outcomes: Vec<(String, Outcome)> = cases
            .iter()
            .map(|case| (string(case, "id"), case))
            .filter(|(id, _)| wanted(id))
            .map(|(id, case)| (id, self.run(case)))
            .collect();
        let mut documents = vec![];
        collect_files(&self.folder.join("docs"), &mut documents);
        for path in documents {
            let id = path.strip_prefix(&self.folder).unwrap_or(&path).display().to_string();
            if wanted(&id) {
                let outcome = round_trip(&id, &path);
                outcomes.push((id, outcome));
            }
        }
        outcomes
    }

    fn run(&self, case: &Json) -> Outcome {
        match string(case, "kind").as_str() {
            "gen" => self.generate(case),
            "patch" => self.patch(case),
            "validate" => self.validate(case),
            "encode" => self.encode(case),
            "schematic" => schematic(case),
            other => Err(format!("no such kind of case: {other:?}")),
        }
    }

    fn generate(&self, case: &Json) -> Outcome {
        let bundle = Bundle::read(&self.file(case, "secrets")?).map_err(|e| e.to_string())?;
        let identity = ClusterIdentity::from(&bundle);
        let contract: Contract = string(case, "contract").parse().map_err(|e| format!("{e}"))?;
        let options = options(&case["options"])?;
        for (key, role) in [("controlplane", Role::ControlPlane), ("worker", Role::Worker)] {
            let input = Input {
                contract,
                cluster_name: &string(case, "cluster_name"),
                endpoint: &string(case, "endpoint"),
                kubernetes_version: &string(case, "kubernetes_version"),
                identity: &identity,
                options: &options,
            };
            let config = generate(&input, role).map_err(|e| e.to_string())?;
            let expected = self.file(&case["expect"], key)?;
            same(&config.encode(), &expected).map_err(|diff| format!("{key}:\n{diff}"))?;
        }
        Ok(())
    }

    fn patch(&self, case: &Json) -> Outcome {
        let release = release(case)?;
        let input = self.file(case, "input")?;
        let patches: Vec<String> = case["patches"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|path| self.read(path.as_str().unwrap_or_default()))
            .collect::<Result<_, _>>()?;
        let patched = patches
            .iter()
            .map(|text| Patch::parse(text, release))
            .collect::<Result<Vec<_>, _>>()
            .and_then(|patches| patch::apply(&input, &patches, release));
        let expect = &case["expect"];
        match (patched, expect.get("error").is_some()) {
            (Ok(output), false) => same(&output, &self.file(expect, "output")?),
            (Err(_), true) => Ok(()),
            (Ok(_), true) => {
                Err(format!("accepted, but Talos says: {}", self.file(expect, "error")?))
            }
            (Err(error), false) => Err(format!("rejected: {error}")),
        }
    }

    fn validate(&self, case: &Json) -> Outcome {
        let mode = match string(case, "mode").as_str() {
            "metal" => Mode::Metal,
            "cloud" => Mode::Cloud,
            "container" => Mode::Container,
            other => return Err(format!("no such mode: {other:?}")),
        };
        let verdict = validate(&self.file(case, "input")?, mode, release(case)?);
        let expect = &case["expect"];
        let stage = match verdict.stage {
            Stage::Decode => "decode",
            Stage::Validate => "validate",
        };
        let error = verdict.error.unwrap_or_default();
        if expect["valid"] != Json::Bool(error.is_empty()) || expect["stage"] != stage {
            return Err(format!(
                "expected: {expect}\nstage: {stage}, warnings: {:?}, error: {error:?}",
                verdict.warnings
            ));
        }
        let expected_error = expect["error"].as_str().unwrap_or_default();
        if env::var_os("TALMOX_VECTORS_TEXTS").is_some() {
            same(&error, expected_error)?;
            let warnings: Vec<&str> = expect["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Json::as_str)
                .collect();
            same(&verdict.warnings.join("\n"), &warnings.join("\n"))?;
        }
        Ok(())
    }

    fn encode(&self, case: &Json) -> Outcome {
        let config = Config::parse(&self.file(case, "input")?, release(case)?)
            .map_err(|error| error.to_string())?;
        let expect = &case["expect"];
        let key = if expect.get("output").is_some() { "output" } else { "canonical" };
        same(&config.encode(), &self.file(expect, key)?)
    }

    fn file(&self, object: &Json, key: &str) -> Result<String, String> {
        match object[key].as_str() {
            Some(path) => self.read(path),
            None => Err(format!("the case names no file as {key:?}")),
        }
    }

    fn read(&self, path: &str) -> Result<String, String> {
        read(&self.folder.join(path))
    }
}

/// The fields of the schematic are among the fields of the case.
fn schematic(case: &Json) -> Outcome {
    let fields = ["owner", "overlay", "customization"].into_iter();
    let fields = fields.filter_map(|key| Some((key.to_owned(), case.get(key)?.clone())));
    let text = Json::Object(fields.collect()).to_string();
    let schematic = Schematic::read(&text).map_err(|error| error.to_string())?;
    same(&schematic.id(), &string(&case["expect"], "id"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Upstream files that were written by hand. Reading and writing such a file changes it once.
const NOT_CANONICAL: &[&str] = &[
    "docs/block/volumeconfig_tpm_encryption_no_options.yaml",
    "docs/block/volumeconfig_tpm_encryption_with_pcr_settings.yaml",
    "docs/block/volumeconfig_tpm_encryption_with_pcrs_disabled.yaml",
    "docs/hardware/pcidriverrebindconfig.yaml",
];

/// Reading and writing a document in canonical form must not change it. A document with a kind that the default release
/// does not support is read with the newest release.
fn round_trip(id: &str, path: &Path) -> Outcome {
    let text = read(path)?;
    let is_newer = |error: &str| error.contains("not registered") || error.contains("unknown keys");
    let config = match Config::parse(&text, Release::default()).map_err(|error| error.to_string()) {
        Err(error) if is_newer(&error) => {
            Config::parse(&text, Release::V1_14).map_err(|error| error.to_string())?
        }
        config => config?,
    };
    let written = config.encode();
    if NOT_CANONICAL.contains(&id) {
        let again = Config::parse(&written, config.release()).map(|config| config.encode());
        return same(&again.unwrap_or_else(|error| error.to_string()), &written);
    }
    same(&written, &text)
}

fn release(case: &Json) -> Result<Release, String> {
    match case["machinery"].as_str() {
        None => Ok(Release::default()),
        Some(version) => {
            Release::of(version).ok_or_else(|| format!("no such release: {version:?}"))
        }
    }
}

fn string(object: &Json, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

fn strings(object: &Json, key: &str) -> Vec<String> {
    let items = object[key].as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn string_map(object: &Json) -> BTreeMap<String, String> {
    let entries = object.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn options(given: &Json) -> Result<Options, String> {
    let mut options = Options::default();
    for (key, value) in given.as_object().into_iter().flatten() {
        let text = || value.as_str().unwrap_or_default().to_owned();
        let node = || {
            let mut nodes = talmox_yaml::read(&value.to_string()).map_err(|e| e.to_string())?;
            Ok::<_, String>(Some(nodes.remove(0)))
        };
        let port = || value.as_u64().and_then(|port| u16::try_from(port).ok());
        match key.as_str() {
            "install_disk" => options.install_disk = text(),
            "install_image" => options.install_image = text(),
            "extra_kernel_args" => options.extra_kernel_args = strings(given, key),
            "additional_sans" => options.additional_sans = strings(given, key),
            "dns_domain" => options.dns_domain = text(),
            "sysctls" => options.sysctls = string_map(value),
            "kubelet_extra_mounts" => options.kubelet_extra_mounts = node()?,
            "registry_mirrors" => {
                let mirrors: BTreeMap<_, _> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(host, _)| (host.clone(), strings(value, host)))
                    .collect();
                options.registry_mirrors = mirrors;
            }
            "local_api_server_port" => options.local_api_server_port = port().unwrap_or(0),
            "cni" => options.cni = node()?,
            "allow_scheduling_on_control_planes" => {
                options.allow_scheduling_on_control_planes = value.as_bool().unwrap_or(false);
            }
            "debug" => options.debug = value.as_bool().unwrap_or(false),
            "persist" => options.persist = value.as_bool().unwrap_or(true),
            "discovery" => options.discovery = value.as_bool().unwrap_or(true),
            "kubespan" => options.kubespan = value.as_bool(),
            "kube_prism_port" => options.kube_prism_port = port(),
            "host_dns_forward_kube_dns" => {
                options.host_dns_forward_kube_dns = value.as_bool().unwrap_or(false);
            }
            "registry_ca_certs" => options.registry_ca_certs = string_map(value),
            "registry_insecure" => options.registry_insecure = strings(given, key),
            "user_disks" => options.user_disks = node()?,
            "pod_subnets" => options.pod_subnets = strings(given, key),
            "service_subnets" => options.service_subnets = strings(given, key),
            other => return Err(format!("no such option: {other:?}")),
        }
    }
    Ok(options)
}

/// First lines that differ, with some lines before them.
fn same(actual: &str, expected: &str) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    let (actual_lines, expected_lines): (Vec<_>, Vec<_>) =
        (actual.split('\n').collect(), expected.split('\n').collect());
    let at = actual_lines
        .iter()
        .zip(&expected_lines)
        .take_while(|(actual, expected)| actual == expected)
        .count();
    let shown = |lines: &[&str], mark: char| -> String {
        let end = lines.len().min(at + 4);
        lines[at.min(end)..end]
            .iter()
            .map(|line| format!("{mark} {}\n", line.chars().take(120).collect::<String>()))
            .collect()
    };
    let before: String = actual_lines[at.saturating_sub(2)..at]
        .iter()
        .map(|line| format!("  {}\n", line.chars().take(120).collect::<String>()))
        .collect();
    Err(format!(
        "line {}:\n{before}{}{}",
        at + 1,
        shown(&expected_lines, '-'),
        shown(&actual_lines, '+')
    ))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
