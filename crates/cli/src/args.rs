//! The command line.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand, ValueEnum};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Exit codes: 0 fine (warnings included), 1 errors, 64 wrong usage.

Start with `talmox init`, then `talmox check`.";

/// From one YAML inventory to a running Talos Linux Kubernetes cluster on Proxmox VE.
#[derive(Debug, Parser)]
#[command(name = "talmox", version, styles = STYLES, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The inventory: a cluster's folder or file, or a folder of clusters [default: ./inventory,
    /// else the current folder]
    #[arg(long, short, global = true, value_name = "PATH")]
    pub(crate) inventory: Option<PathBuf>,

    /// How to print results: text, or json for programs
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) format: Format,

    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(InitArgs),
    Check(CheckArgs),
    Schema(SchemaArgs),
}

/// Write a new inventory
///
/// Asks a few questions on a terminal; elsewhere, or with --yes, takes its answers from the flags.
/// Given the address of a Proxmox it shows the fingerprint of its certificate, and pins it.
/// Existing files are never overwritten.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the cluster [default: home]
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: Option<String>,

    /// Ask nothing: flags and defaults answer
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// The network of the nodes, such as 10.0.0.0/24
    #[arg(long, value_name = "CIDR")]
    pub(crate) subnet: Option<String>,

    /// Its gateway [default: the first address of the subnet]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Option<String>,

    /// The address of the first control plane; the others follow [default: the 11th of the subnet]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) first_address: Option<String>,

    /// A free address for the control plane as a whole, or `none`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) vip: Option<String>,

    /// How many control planes [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) controlplanes: Option<u16>,

    /// How many workers [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u16>,

    /// The address of the Proxmox, such as https://pve:8006
    #[arg(long, value_name = "URL")]
    pub(crate) proxmox: Option<String>,

    /// The SHA-256 fingerprint of its certificate, which is then not asked for
    #[arg(long, value_name = "AB:CD:…")]
    pub(crate) fingerprint: Option<String>,

    /// The name of the Proxmox host [default: pve]
    #[arg(long, value_name = "HOST")]
    pub(crate) node: Option<String>,

    /// The version of Talos [default: v1.13.9]
    #[arg(long, value_name = "VERSION")]
    pub(crate) talos_version: Option<String>,
}

/// Check an inventory, without contacting anything
///
/// Reports everything that is wrong in one go, each finding with its place and what to do.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The clusters to check [default: all of the inventory]
    #[arg(value_name = "CLUSTER")]
    pub(crate) clusters: Vec<String>,

    /// Print every setting of a node, and the file and line that it came from
    #[arg(long, value_name = "NODE")]
    pub(crate) explain: Option<String>,
}

/// Print the JSON schema of the inventory, for editors
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {}
