//! Validation of a config with the rules of Talos, for each platform mode.
//!
//! The results are equal to the results of Talos, and the messages are similar. `lint` reports problems that Talos
//! accepts.

mod cluster;
mod conflicts;
mod devices;
mod labels;
mod links;
mod machine;
mod pem;
mod runtime_spec;
mod services;
mod view;
mod volumes;

use crate::document::{Config, Document};
use crate::schema::{CONFIG_KIND, Release};
pub(crate) use view::View;

/// Platform mode of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Metal,
    /// Any cloud or hypervisor, including `nocloud`.
    Cloud,
    Container,
}

impl Mode {
    fn requires_install(self) -> bool {
        self == Self::Metal
    }

    fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Cloud => "cloud",
            Self::Container => "container",
        }
    }
}

/// Stage at which the validation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The text could not be parsed as a config.
    Decode,
    /// The config was validated.
    Validate,
}

/// Result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub stage: Stage,
    pub warnings: Vec<String>,
    /// All errors in one text; `None` if the config is valid.
    pub error: Option<String>,
}

impl Verdict {
    pub fn is_valid(&self) -> bool {
        self.error.is_none()
    }
}

/// Parses and validates a config as `talosctl validate` does.
pub fn validate(text: &str, mode: Mode, release: Release) -> Verdict {
    match Config::parse(text, release) {
        Ok(config) => validate_config(&config, mode),
        Err(error) => {
            Verdict { stage: Stage::Decode, warnings: vec![], error: Some(error.to_string()) }
        }
    }
}

/// Validates a parsed config.
pub fn validate_config(config: &Config, mode: Mode) -> Verdict {
    validate_documents(config, mode, false)
}

/// Like [`validate_config`], but warnings about the v1alpha1 document are errors, as in `talosctl validate --strict`.
pub fn validate_strictly(config: &Config, mode: Mode) -> Verdict {
    validate_documents(config, mode, true)
}

fn validate_documents(config: &Config, mode: Mode, strict: bool) -> Verdict {
    let release = config.release();
    let mut warnings = vec![];
    let mut errors = vec![];
    if let Some(legacy) = config.v1alpha1() {
        let mut report = Report::default();
        machine::validate(View::of(&legacy.body), mode, release, &mut report);
        if strict {
            let warnings = report.warnings.drain(..);
            let as_errors = warnings.map(|warning| format!("warning: {warning}"));
            report.errors.extend(as_errors);
        }
        warnings.append(&mut report.warnings);
        if !report.errors.is_empty() {
            errors.push(format!("v1alpha1.Config: {}", multi(&report.errors)));
        }
    }
    for document in config.documents() {
        let mut report = Report::default();
        validate_document(document, release, &mut report);
        warnings.append(&mut report.warnings);
        if !report.errors.is_empty() {
            errors.push(format!("{}: {}", shown(document), report.errors.join("\n")));
        }
    }
    if let Some(legacy) = config.v1alpha1() {
        let legacy = View::of(&legacy.body);
        let conflicts =
            config.documents().filter_map(|document| conflicts::with_v1alpha1(document, legacy));
        errors.extend(conflicts);
    }
    Verdict {
        stage: Stage::Validate,
        warnings,
        error: (!errors.is_empty()).then(|| multi(&errors)),
    }
}

fn shown(document: &Document) -> String {
    match document.name() {
        Some(name) => format!("{}/{name}", document.kind()),
        None => document.kind().to_owned(),
    }
}

/// Errors and warnings of one document.
#[derive(Debug, Default)]
struct Report {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    fn error(&mut self, reason: impl Into<String>) {
        self.errors.push(reason.into());
    }

    fn warn(&mut self, reason: impl Into<String>) {
        self.warnings.push(reason.into());
    }

    fn check(&mut self, ok: bool, reason: &str) {
        if !ok {
            self.error(reason);
        }
    }
}

/// Text for several errors, in the format of Talos's error library.
fn multi(errors: &[String]) -> String {
    let points: Vec<String> = errors.iter().map(|error| format!("* {error}")).collect();
    let count = match errors.len() {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    format!("{count} occurred:\n\t{}\n\n", points.join("\n\t"))
}

fn validate_document(document: &Document, release: Release, report: &mut Report) {
    let view = View::of(&document.body);
    match document.kind() {
        CONFIG_KIND => {}
        "UserVolumeConfig"
        | "RawVolumeConfig"
        | "SwapVolumeConfig"
        | "ExistingVolumeConfig"
        | "ExternalVolumeConfig"
        | "VolumeConfig"
        | "ZswapConfig" => {
            volumes::validate(document.kind(), view, release, report);
        }
        "BondConfig" | "BridgeConfig" | "DummyLinkConfig" | "LinkConfig" | "VLANConfig"
        | "VRFConfig" | "WireguardConfig" => links::validate_link(document.kind(), view, report),
        "BlackholeRouteConfig"
        | "DHCPv4Config"
        | "DHCPv6Config"
        | "EthernetConfig"
        | "HCloudVIPConfig"
        | "HostnameConfig"
        | "KubeSpanConfig"
        | "Layer2VIPConfig"
        | "LinkAliasConfig"
        | "NetworkRuleConfig"
        | "ResolverConfig"
        | "RoutingRuleConfig"
        | "StaticHostConfig"
        | "TCPProbeConfig"
        | "TimeSyncConfig" => {
            links::validate_other(document.kind(), view, release, report);
        }
        kind => services::validate(kind, view, report),
    }
}
