//! Definition of the command line. The arguments of a subcommand are defined in the file of that subcommand.

use std::path::{Path, PathBuf};

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::command::{
    addons, adopt, check, completions, config, destroy, etcd, explain, export, import, init,
    kubeconfig, lab, man, node, output, plan, render, runs, schema, secrets, status, talosconfig,
    template, unlock, up,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Exit codes:
  0    success, possibly with warnings
  1    the command failed, or it reported errors
  2    the plan has changes (`plan --detailed-exitcode` only)
  3    `up` left changes that need consent, are impossible or have errors
  64   wrong usage
  130  a second Ctrl-C or SIGTERM ended the command at once

Start with `talmox up --lab`, which needs no Proxmox and no inventory. Then run
`talmox init`, which writes an inventory and prints the next steps.";

/// Create and manage Talos Linux Kubernetes clusters on Proxmox VE from a YAML inventory.
#[derive(Debug, Parser)]
#[command(name = "talmox", version, styles = STYLES, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Inventory: folder or file of a cluster, or a folder of clusters [default: ./inventory, or else the current
    /// folder]
    #[arg(long, short, global = true, value_name = "PATH")]
    pub(crate) inventory: Option<PathBuf>,

    /// Output format: text or json [default: text]
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) format: Format,

    /// When to use colours: auto (on a terminal, unless NO_COLOR is set), always or never [default:
    /// auto]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) color: Color,

    /// Print changes, retries and decisions to stderr; with -vv every API call (see also TALMOX_LOG)
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Print only results and errors: no progress, notes or warnings
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Run the commands of `{command: …}` references without asking, in this invocation only
    #[arg(long, global = true)]
    pub(crate) allow_commands: bool,

    /// File or folder outside the repository that the inventory may use; repeatable
    #[arg(long = "allow-file", global = true, value_name = "PATH")]
    pub(crate) allow_files: Vec<PathBuf>,
}

impl Global {
    /// The same global options with another inventory path.
    pub(crate) fn at(&self, inventory: &Path) -> Self {
        Self {
            inventory: Some(inventory.to_owned()),
            format: self.format,
            color: self.color,
            verbose: self.verbose,
            quiet: self.quiet,
            allow_commands: self.allow_commands,
            allow_files: self.allow_files.clone(),
        }
    }
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
    Init(init::InitArgs),
    Adopt(adopt::AdoptArgs),
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    Up(up::UpArgs),
    Status(status::StatusArgs),
    Output(output::OutputArgs),
    Destroy(destroy::DestroyArgs),
    Unlock(unlock::UnlockArgs),
    Runs(runs::RunsArgs),
    Explain(explain::ExplainArgs),
    Template(template::TemplateArgs),
    Render(render::RenderArgs),
    Secrets(secrets::SecretsArgs),
    Kubeconfig(kubeconfig::KubeconfigArgs),
    Talosconfig(talosconfig::TalosconfigArgs),
    Config(config::ConfigArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Node(node::NodeArgs),
    Etcd(etcd::EtcdArgs),
    Addons(addons::AddonsArgs),
    Lab(lab::LabArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}
