//! `talmox config gen`

mod endpoint;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use serde_json::json;
use talmox_talos_config::client::{ClientRole, talosconfig};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::generate::{self, ClusterIdentity, Input, Options, Role};
use talmox_talos_config::patch::{Patch, apply};
use talmox_talos_config::schematic::Schematic;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{self, Bundle};

use super::{contract, patches, release};
use crate::args::Format;
use crate::command::Outcome;
use crate::command::secrets::import;
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::{CommandError, Exit};
use crate::new_file::{NewFile, is_folder, refuse_existing, write_all};
use crate::printer::Printer;

/// Validity of a talosconfig, the same as in talosctl.
const A_YEAR: Duration = Duration::from_hours(365 * 24);

/// Generate the machine configs and the talosconfig of a cluster
///
/// Accepts the arguments of `talosctl gen config` and writes the same files, without comments and with mode 0600.
/// Without --with-secrets it generates new secrets.
#[expect(clippy::struct_excessive_bools, reason = "talosctl's switches")]
#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER_NAME")]
    cluster_name: String,

    /// URL of the Kubernetes API, such as https://10.0.0.20:6443
    #[arg(value_name = "ENDPOINT")]
    endpoint: String,

    /// Secrets file of `talosctl gen secrets` [default: new secrets]
    #[arg(long, value_name = "FILE")]
    with_secrets: Option<PathBuf>,

    /// Talos version of the nodes [default: v1.13]
    #[arg(long, value_name = "VERSION")]
    talos_version: Option<String>,

    /// Kubernetes version [default: that of the Talos version]
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,

    /// Patch for all machines: `@FILE`, a file name, or inline YAML or JSON
    #[arg(long, value_name = "PATCH")]
    config_patch: Vec<String>,

    /// Patch for control planes
    #[arg(long, value_name = "PATCH")]
    config_patch_control_plane: Vec<String>,

    /// Patch for workers
    #[arg(long, value_name = "PATCH")]
    config_patch_worker: Vec<String>,

    /// Disk to install to
    #[arg(long, value_name = "DEVICE", default_value = "/dev/sda")]
    install_disk: String,

    /// Installer image [default: the image without extensions of --talos-version, if that has a patch number]
    #[arg(long, value_name = "IMAGE")]
    install_image: Option<String>,

    /// Additional names and addresses for the certificates, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    additional_sans: Vec<String>,

    /// DNS domain of the cluster
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    dns_domain: String,

    /// Mirror of a container registry
    #[arg(long, value_name = "REGISTRY=URL", value_delimiter = ',')]
    registry_mirror: Vec<String>,

    /// Use the discovery service to find the other nodes [default: true]
    #[arg(long, num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    #[arg(value_name = "BOOL", default_value = "true", default_missing_value = "true")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    with_cluster_discovery: bool,

    /// Connect the nodes with KubeSpan
    #[arg(long, num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    #[arg(value_name = "BOOL", default_value = "false", default_missing_value = "true")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    with_kubespan: bool,

    /// Keep the config across reboots [default: true]
    #[arg(long, short, num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    #[arg(value_name = "BOOL", default_value = "true", default_missing_value = "true")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    persist: bool,

    /// Files to generate: controlplane, worker, talosconfig [default: all]
    #[arg(long, short = 't', value_name = "TYPES", value_delimiter = ',')]
    #[arg(hide_possible_values = true)]
    output_types: Vec<OutputType>,

    /// Folder to write to, or the file for a single type; `-` for stdout [default: .]
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Replace existing files
    #[arg(long)]
    force: bool,

    // Hidden options of talosctl, accepted for existing scripts.
    #[arg(long, hide = true, value_name = "PATH", conflicts_with = "output")]
    output_dir: Option<PathBuf>,
    #[arg(long, hide = true, value_parser = ["v1alpha1"])]
    version: Option<String>,
    #[arg(long, hide = true, require_equals = true, value_parser = ["false"])]
    with_docs: Option<String>,
    #[arg(long, hide = true, require_equals = true, value_parser = ["false"])]
    with_examples: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputType {
    #[value(name = "controlplane")]
    ControlPlane,
    Worker,
    #[value(name = "talosconfig")]
    TalosConfig,
}

impl OutputType {
    const ALL: [Self; 3] = [Self::ControlPlane, Self::Worker, Self::TalosConfig];

    fn file_name(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane.yaml",
            Self::Worker => "worker.yaml",
            Self::TalosConfig => "talosconfig",
        }
    }
}

/// Type of output and its file; `None` for stdout.
type Destination = (OutputType, Option<PathBuf>);

/// Inputs of the generated configs.
struct GenInputs {
    contract: Contract,
    kubernetes_version: String,
    options: Options,
    for_all: Vec<Patch>,
    for_control_planes: Vec<Patch>,
    for_workers: Vec<Patch>,
}

pub(super) fn run(args: &GenArgs, printer: &Printer) -> Outcome {
    endpoint::check(&args.endpoint)?;
    let destinations = destinations(args)?;
    let inputs = GenInputs::read(args, printer)?;
    // Existing files are checked before the keys are generated, because that takes a while.
    let paths = || destinations.iter().filter_map(|(_, path)| path.as_ref());
    if !args.force {
        refuse_existing(paths(), "nothing was written; pass --force to replace it")?;
    }
    let bundle = bundle(args, printer)?;
    let identity = ClusterIdentity::from(&bundle);
    let mut files = vec![];
    for (output, path) in &destinations {
        let text = match output {
            OutputType::ControlPlane => inputs.config(args, &identity, Role::ControlPlane)?,
            OutputType::Worker => inputs.config(args, &identity, Role::Worker)?,
            OutputType::TalosConfig => client_config(args, &bundle)?,
        };
        match path {
            Some(path) => files.push(NewFile { path: path.clone(), text, is_secret: true }),
            None => printer.file(text.expose())?,
        }
    }
    write_all(&files)?;
    if printer.format == Format::Json && !files.is_empty() {
        let written: Vec<String> = paths().map(|path| path.display().to_string()).collect();
        printer.result(&format!("{:#}\n", json!({ "written": written })))?;
    } else {
        for path in paths() {
            printer.say(&format!("wrote {}", path.display()));
        }
    }
    Ok(Exit::Fine)
}

/// Output paths. As in talosctl, a single type is written to the named file, and several types are written to a folder.
fn destinations(args: &GenArgs) -> Result<Vec<Destination>, CommandError> {
    let is_wanted =
        |output: &OutputType| args.output_types.is_empty() || args.output_types.contains(output);
    let types: Vec<OutputType> = OutputType::ALL.into_iter().filter(is_wanted).collect();
    let given = args.output.as_deref();
    if given == Some(Path::new("-")) {
        let [only] = types.as_slice() else {
            let error = CommandError::usage("only one file can go to stdout");
            return Err(error.hint("pass -t controlplane, -t worker or -t talosconfig"));
        };
        return Ok(vec![(*only, None)]);
    }
    if let ([only], Some(file)) = (types.as_slice(), given)
        && !is_folder(file)
    {
        return Ok(vec![(*only, Some(file.to_owned()))]);
    }
    let folder = args.output_dir.as_deref().or(given).unwrap_or(Path::new(""));
    Ok(types.into_iter().map(|output| (output, Some(folder.join(output.file_name())))).collect())
}

impl GenInputs {
    fn read(args: &GenArgs, printer: &Printer) -> Result<Self, CommandError> {
        let version = args.talos_version.as_deref();
        let talos = version.map(contract).transpose()?.unwrap_or(Contract::NEWEST);
        let read = |arguments: &[String]| patches(arguments, Some(talos));
        Ok(Self {
            contract: talos,
            kubernetes_version: kubernetes_version(args, talos, printer)?,
            options: options(args, talos)?,
            for_all: read(&args.config_patch)?,
            for_control_planes: read(&args.config_patch_control_plane)?,
            for_workers: read(&args.config_patch_worker)?,
        })
    }

    fn config(
        &self,
        args: &GenArgs,
        identity: &ClusterIdentity,
        role: Role,
    ) -> Result<SecretText, CommandError> {
        let (name, of_role) = match role {
            Role::ControlPlane => ("control planes", &self.for_control_planes),
            Role::Worker => ("workers", &self.for_workers),
        };
        let input = Input {
            contract: self.contract.for_nodes(),
            cluster_name: &args.cluster_name,
            endpoint: &args.endpoint,
            kubernetes_version: &self.kubernetes_version,
            identity,
            options: &self.options,
        };
        let config = generate::generate(&input, role).map_err(|error| {
            CommandError::failed(
                CommandCode::ConfigInvalid,
                format!("cannot generate the config of {name}"),
            )
            .because(error)
        })?;
        let patches: Vec<Patch> = self.for_all.iter().chain(of_role).cloned().collect();
        let text = SecretText::new(config.encode());
        if patches.is_empty() {
            return Ok(text);
        }
        let unpatched = |error| {
            let message = format!("cannot patch the config of {name}");
            CommandError::failed(CommandCode::ConfigInvalid, message).because(error)
        };
        // The patches are applied in the config format of the requested Talos version.
        let patched = apply(text.expose(), &patches, release(Some(self.contract)));
        patched.map(SecretText::new).map_err(unpatched)
    }
}

fn kubernetes_version(
    args: &GenArgs,
    talos: Contract,
    printer: &Printer,
) -> Result<String, CommandError> {
    let support = talos.support();
    let Some(given) = &args.kubernetes_version else {
        return Ok(support
            .map(|support| support.kubernetes_default.to_owned())
            .unwrap_or_default());
    };
    match support.and_then(|support| Some((support, support.runs_kubernetes(given)?))) {
        None => Err(CommandError::usage(format!("`{given}` is not a version of Kubernetes"))),
        Some((_, true)) => Ok(given.trim_start_matches('v').to_owned()),
        Some((support, false)) => {
            let warning = printer.paint("warning:", "1;33");
            let (oldest, newest) = (support.kubernetes_min, support.kubernetes_max);
            printer.say(&format!(
                "{warning} Talos {talos} runs Kubernetes v1.{oldest} to v1.{newest}, not {given}"
            ));
            Ok(given.trim_start_matches('v').to_owned())
        }
    }
}

fn options(args: &GenArgs, talos: Contract) -> Result<Options, CommandError> {
    let mut registry_mirrors: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mirror in &args.registry_mirror {
        let Some((host, url)) = mirror.split_once('=') else {
            let error = CommandError::usage(format!("`{mirror}` is not a registry mirror"));
            return Err(error.hint("write it as `docker.io=https://mirror.lan`"));
        };
        registry_mirrors.entry(host.to_owned()).or_default().push(url.to_owned());
    }
    let version = args.talos_version.as_deref();
    let install_image = match &args.install_image {
        Some(image) => image.clone(),
        None => version.and_then(|version| installer(version, talos)).unwrap_or_default(),
    };
    Ok(Options {
        install_disk: args.install_disk.clone(),
        install_image,
        additional_sans: args.additional_sans.clone(),
        dns_domain: args.dns_domain.clone(),
        registry_mirrors,
        discovery: args.with_cluster_discovery,
        kubespan: args.with_kubespan.then_some(true),
        persist: args.persist,
        ..Options::default()
    })
}

/// Installer image without extensions. `None` for a minor version such as v1.13, because Talos then installs the booted
/// version.
fn installer(version: &str, talos: Contract) -> Option<String> {
    let number = version.strip_prefix('v').unwrap_or(version);
    number.splitn(3, '.').nth(2)?;
    // From Talos 1.14 on, installer images come only from the Image Factory.
    if talos > Contract::NEWEST {
        let id = Schematic::default().id();
        return Some(format!("factory.talos.dev/metal-installer/{id}:v{number}"));
    }
    Some(format!("ghcr.io/siderolabs/installer:v{number}"))
}

fn bundle(args: &GenArgs, printer: &Printer) -> Result<Bundle, CommandError> {
    let Some(path) = &args.with_secrets else {
        printer.say("generating new secrets");
        return secrets::generate(environment::now(), &mut environment::Kernel).map_err(|error| {
            CommandError::failed(CommandCode::CertificateFailed, "cannot generate secrets")
                .because(error)
        });
    };
    import::bundle_in(path)
}

fn client_config(args: &GenArgs, bundle: &Bundle) -> Result<SecretText, CommandError> {
    let request = talosconfig::TalosconfigRequest {
        context: &args.cluster_name,
        endpoints: &[],
        nodes: &[],
        roles: &[ClientRole::Admin],
        ttl: A_YEAR,
    };
    talosconfig::generate(bundle, &request, environment::now(), &mut environment::Kernel).map_err(
        |error| {
            CommandError::failed(CommandCode::CertificateFailed, "cannot generate the talosconfig")
                .because(error)
        },
    )
}
