//! Address and credentials of the node that a command uses.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use talmox_clock::Clock;
use talmox_model::Node;
use talmox_plan::desired::NodeIdentity;
use talmox_talos_api::{
    Address, Client, Credentials, CredentialsError, Expected, Pin, Settings, SetupError,
    node_address, parse_node_address,
};
use talmox_talos_config::client::ClientRole;

use super::super::client::bundle_of;
use crate::args::Global;
use crate::choose::{self, Chosen};
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::read_input;
use crate::session::reach_of;
use crate::{environment, rehearsal, words};

/// Validity of a client certificate, which is issued for one command.
const TTL: Duration = Duration::from_mins(10);

#[derive(Debug, Args)]
#[command(next_help_heading = "Access options")]
pub(super) struct AccessArgs {
    /// Cluster of the node [default: the only cluster of the inventory]
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,

    /// Use the credentials of this talosconfig; `-` for stdin. No inventory is needed
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    talosconfig: Option<PathBuf>,

    /// Context of the talosconfig [default: the current context]
    #[arg(long, value_name = "NAME", requires = "talosconfig")]
    context: Option<String>,

    /// Connect to a node in maintenance mode; its certificate is not verified, unless --fingerprint is given
    #[arg(long)]
    insecure: bool,

    /// Fingerprint of a node in maintenance mode, shown on its console
    #[arg(long, value_name = "PIN", requires = "insecure")]
    fingerprint: Option<Pin>,

    /// The node is in a running lab: file with the output of `talmox lab serve --format json`
    #[arg(long, value_name = "FILE")]
    lab_at: Option<PathBuf>,
}

impl AccessArgs {
    /// File of `--lab-at`.
    pub(super) fn lab_at(&self) -> Option<&Path> {
        self.lab_at.as_deref()
    }

    pub(super) fn is_talosconfig(&self) -> bool {
        self.talosconfig.is_some()
    }

    /// Options of the current command, for a command in a hint. Each option has a leading space. Without these options,
    /// the command in the hint would use another node or other credentials.
    fn options(&self, global: &Global) -> String {
        let path = |path: &PathBuf| words::quoted(&path.display().to_string());
        let options = [
            ("--inventory", global.inventory.as_ref().map(path)),
            ("--cluster", self.cluster.as_deref().map(words::quoted)),
            ("--talosconfig", self.talosconfig.as_ref().map(path)),
            ("--context", self.context.as_deref().map(words::quoted)),
            ("--insecure", self.insecure.then(String::new)),
            ("--fingerprint", self.fingerprint.map(|pin| pin.to_string())),
            ("--lab-at", self.lab_at.as_ref().map(path)),
        ];
        let allowed = global.allow_files.iter().map(|file| ("--allow-file", Some(path(file))));
        let options = options.into_iter().chain(allowed);
        let given = options.filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!(" {name} {value}").trim_end().to_owned()).collect()
    }
}

/// Credentials that a command uses for the Talos API.
#[derive(Debug)]
pub(super) enum Caller {
    Anonymous,
    Known(Box<Credentials>, Origin),
}

/// Origin of the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Bundle,
    Talosconfig { file: String, context: String },
}

/// Node that a command uses.
#[derive(Debug)]
pub(super) struct Target {
    /// Name or address of the node on the command line.
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) caller: Caller,
    pub(super) settings: Settings,
    /// Access options of the command line, for commands in hints ([`AccessArgs::options`]).
    pub(super) options: String,
    chosen: Option<Chosen>,
}

impl Target {
    /// Resolves a node without connecting to it. A client certificate that talmox issues has the role `role`. The
    /// certificate in a talosconfig has its own role.
    pub(super) fn find(
        node: &str,
        access: &AccessArgs,
        role: ClientRole,
        global: &Global,
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let needs_bundle = access.talosconfig.is_none() && !access.insecure;
        let is_inventory_named = access.cluster.is_some() || global.inventory.is_some();
        let is_name = !is_address(node) && choose::has_inventory(global);
        let chosen = if needs_bundle || is_inventory_named || is_name {
            Some(choose::one(global, access.cluster.as_deref(), printer)?)
        } else {
            None
        };
        let address = match &chosen {
            Some(chosen) => address_in(chosen, node)?,
            None => parse_node_address(node),
        };
        let settings = settings(access, chosen.as_ref())?;
        let caller = caller(access, chosen.as_ref(), role)?;
        let client = match &caller {
            Caller::Anonymous => Client::maintenance(address, access.fingerprint, &settings),
            Caller::Known(credentials, _) => Client::new(address, credentials, &settings),
        };
        let failed = |error: SetupError| {
            CommandError::failed(CommandCode::SystemFailed, "cannot use TLS").because(error)
        };
        Ok(Self {
            name: node.to_owned(),
            client: client.map_err(failed)?,
            caller,
            settings,
            options: access.options(global),
            chosen,
        })
    }

    /// Node of the inventory. `None` if the user did not pass the name of a node of the inventory.
    pub(super) fn node(&self) -> Option<&Node> {
        let mut nodes = self.chosen.as_ref()?.cluster().nodes.iter();
        nodes.find(|node| node.name.value.as_str() == self.name)
    }

    /// Cluster that the node belongs to. `None` if the address is not in the inventory and the credentials are not from
    /// the secrets bundle.
    pub(super) fn cluster(&self) -> Option<&Chosen> {
        let chosen = self.chosen.as_ref()?;
        let address = &self.client.node().host;
        let is_listed = |node: &Node| {
            node.contact().is_some_and(|contact| contact.to_string() == *address)
                || node.name.value.as_str() == self.name
        };
        let is_of_cluster = matches!(self.caller, Caller::Known(_, Origin::Bundle))
            || chosen.cluster().nodes.iter().any(is_listed);
        is_of_cluster.then_some(chosen)
    }

    /// Identity that the machine must have, if the user passed the name of a node of the inventory. `None` if the user
    /// passed an address, because any machine may answer at that address.
    pub(super) fn machine(&self) -> Result<Option<Expected>, CommandError> {
        let (Some(chosen), Some(node)) = (&self.chosen, self.node()) else { return Ok(None) };
        let bundle = bundle_of(chosen).map_err(|error| {
            let why = error.chain();
            let name = &self.name;
            CommandError::failed(
                CommandCode::NodeAddressUnknown,
                format!("cannot verify which machine is `{name}`: {why}"),
            )
            .hint("if you know the address of the node, pass it instead of the name")
        })?;
        let identity = NodeIdentity::of(node, &bundle.cluster.id);
        Ok(Some(Expected {
            // The instance ID depends on how the VM was created, and `boot:` may have changed since then.
            instance_id: None,
            uuid: Some(identity.uuid.to_string()),
            macs: identity.macs.iter().map(|mac| mac.lower_case()).collect(),
        }))
    }

    /// Command for this node with the options of the current command, for example `talmox node get NODE rd --insecure`.
    pub(super) fn command(&self, command: &str, rest: &str) -> String {
        let (name, options) = (words::quoted(&self.name), &self.options);
        let blank = if rest.is_empty() { "" } else { " " };
        format!("`talmox node {command} {name}{blank}{rest}{options}`")
    }

    /// Name and address, for example `cp-1 (10.0.0.11:50000)`.
    pub(super) fn title(&self) -> String {
        let address = self.client.node();
        if self.name == address.host || self.name == address.to_string() {
            return address.to_string();
        }
        format!("{} ({address})", self.name)
    }
}

/// Clock and reach map of the lab. Without a lab: the real clock, and the reach map of the inventory.
fn settings(access: &AccessArgs, chosen: Option<&Chosen>) -> Result<Settings, CommandError> {
    let Some(file) = &access.lab_at else {
        let mut settings = Settings::new(Clock::real());
        settings.reach = chosen.map(|chosen| reach_of(chosen.cluster())).unwrap_or_default();
        return Ok(settings);
    };
    let lab = rehearsal::join(file)?;
    let mut settings = Settings::new(lab.clock);
    settings.reach = lab.reach();
    Ok(settings)
}

fn caller(
    access: &AccessArgs,
    chosen: Option<&Chosen>,
    role: ClientRole,
) -> Result<Caller, CommandError> {
    if let Some(path) = &access.talosconfig {
        let text = read_input(path)?;
        let credentials = Credentials::from_talosconfig(&text, access.context.as_deref());
        let credentials = credentials.map_err(|error| {
            let hint = match &error {
                CredentialsError::NoContext { .. } => "pass one of its contexts with --context",
                _ => "create one with `talmox talosconfig`",
            };
            CommandError::failed(
                CommandCode::FileUnreadable,
                format!("cannot use {}", path.display()),
            )
            .because(error)
            .hint(hint)
        })?;
        let context = access.context.clone().or_else(|| Credentials::current_context(&text));
        let origin = Origin::Talosconfig {
            file: path.display().to_string(),
            context: context.unwrap_or_default(),
        };
        return Ok(Caller::Known(Box::new(credentials), origin));
    }
    // With `--insecure`, the command uses the addresses of the inventory, but no credentials.
    let Some(chosen) = chosen.filter(|_| !access.insecure) else { return Ok(Caller::Anonymous) };
    let bundle = bundle_of(chosen)?;
    let now = environment::now();
    let ttl = if access.lab_at.is_some() { rehearsal::TTL } else { TTL };
    let credentials = Credentials::issue(&bundle, &[role], ttl, now, &mut environment::Kernel);
    let credentials = credentials.map_err(|error| {
        CommandError::failed(CommandCode::CertificateFailed, "cannot create a certificate")
            .because(error)
    })?;
    Ok(Caller::Known(Box::new(credentials), Origin::Bundle))
}

/// Whether a text is an address or a fully qualified DNS name, and not a node name.
fn is_address(node: &str) -> bool {
    node.contains(['.', ':']) || parse_node_address(node).host.parse::<IpAddr>().is_ok()
}

/// Address of the node with this name. If `node` is an address, that address is returned.
fn address_in(chosen: &Chosen, node: &str) -> Result<Address, CommandError> {
    let cluster = chosen.cluster();
    let Some(known) = cluster.nodes.iter().find(|known| known.name.value.as_str() == node) else {
        if is_address(node) {
            return Ok(parse_node_address(node));
        }
        let names: Vec<&str> = chosen.talos_nodes().map(|node| node.name.value.as_str()).collect();
        let message = format!("there is no node `{node}` in `{}`", cluster.name);
        return Err(CommandError::usage_as(CommandCode::NodeNotFound, message)
            .hint(format!("nodes: {}", names.join(", "))));
    };
    if !known.is_talos() {
        return Err(CommandError::failed(
            CommandCode::NodeNotTalos,
            format!("`{node}` does not run Talos"),
        )
        .hint("use SSH: only Talos nodes have a Talos API"));
    }
    let contact = known.contact().ok_or_else(|| {
        CommandError::failed(
            CommandCode::NodeAddressUnknown,
            format!("`{node}` has no address in the inventory"),
        )
        .hint("pass the address of the node instead of its name")
    })?;
    Ok(node_address(contact.to_string()))
}
