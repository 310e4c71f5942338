//! `talmox init`

mod answers;
mod asking;
pub(crate) mod files;
mod role;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use talmox_model::load::{ClusterFiles, File, Parsed};
use talmox_model::value::ProxmoxUrl;
use talmox_model::{Code, Diagnostic, Inventory, Severity};
use talmox_pve::fingerprint;

use super::{Outcome, schema};
use crate::args::{Format, Global};
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::load::load;
use crate::locate::neighbours;
use crate::new_file::{self, write_new};
use crate::printer::Printer;
use crate::{gitignore, render, words};
use answers::{AnswerCheck, Answers, Certificate};
use asking::Asking;

const AFTER_HELP: &str = "\
Examples:
  talmox init                    ask for the settings
  talmox init dev --yes --subnet 10.0.10.0/24 --proxmox https://pve1:8006
  talmox init --role dev         print how to create the token for Proxmox";

/// Write a new inventory
///
/// Asks for the settings on a terminal. Without a terminal, or with --yes, it uses flags and defaults. With the address
/// of a Proxmox VE it shows the fingerprint of the certificate, and writes it to the inventory after confirmation.
/// Existing files are never overwritten, except that missing patterns are added to the .gitignore beside cluster.yaml:
/// kubeconfig, talosconfig, generated/ and .talmox/.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InitArgs {
    /// Name of the cluster [default: home]
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: Option<String>,

    /// Do not ask; use flags and defaults
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Network of the nodes, such as 10.0.0.0/24
    #[arg(long, value_name = "CIDR")]
    pub(crate) subnet: Option<String>,

    /// Gateway of the network [default: the first address of the subnet]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gateway: Option<String>,

    /// Address of the first control plane; the other nodes get the following addresses [default: the 11th address of
    /// the subnet]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) first_address: Option<String>,

    /// Free address that the control planes share (VIP), or `none`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) vip: Option<String>,

    /// Number of control planes [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) controlplanes: Option<u16>,

    /// Number of workers [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u16>,

    /// URL of the Proxmox API, such as https://pve:8006
    #[arg(long, value_name = "URL")]
    pub(crate) proxmox: Option<String>,

    /// SHA-256 fingerprint of the Proxmox certificate; used without confirmation
    #[arg(long, value_name = "AB:CD:…")]
    pub(crate) fingerprint: Option<String>,

    /// Name of the Proxmox host [default: pve]
    #[arg(long, value_name = "HOST")]
    pub(crate) node: Option<String>,

    /// Talos version [default: the newest supported version]
    #[arg(long, value_name = "VERSION")]
    pub(crate) talos_version: Option<String>,

    /// Write no files; print the commands that create the user, the token and the permissions for an inventory
    ///
    /// Run the commands as root on a Proxmox host. The permissions are minimal: they cover only the pool, storages,
    /// bridges, hosts and devices that the inventory names.
    #[arg(long)]
    pub(crate) role: bool,
}

pub(crate) fn run(args: &InitArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.role {
        return role::run(args.cluster.as_deref(), global, printer);
    }
    let is_asking = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    let asking = Asking { printer, is_asking };
    let root = global.inventory.clone().unwrap_or_else(|| PathBuf::from("inventory"));
    let answers = Answers::collect(args, &asking, &Surroundings { root: &root, asking: &asking })?;
    let folder = root.join(&answers.cluster);
    let schema_path = root.join("talmox.schema.json");
    let (cluster, nodes) = (files::cluster(&answers), files::nodes(&answers));
    refuse_bad(&root, &folder, &cluster, &nodes)?;
    let mut written = vec![
        write_new(&folder.join("cluster.yaml"), &cluster)?,
        write_new(&folder.join("nodes.yaml"), &nodes)?,
    ];
    if !schema_path.exists() {
        written.push(write_new(&schema_path, &schema::text())?);
    }
    report(&root, &folder, &written, printer)
}

/// Prints the written files, the findings of the new inventory, and the next steps.
pub(super) fn report(
    root: &Path,
    folder: &Path,
    written: &[PathBuf],
    printer: &Printer,
) -> Outcome {
    let mut written = written.to_vec();
    // An error is reported only as a warning, because the inventory is already written.
    match gitignore::extend(folder) {
        Ok(path) => written.extend(path),
        Err(error) => printer.warn(&error.chain()),
    }
    let inventory = load(Some(folder), &[])?;
    if printer.format == Format::Json {
        let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let result = serde_json::json!({
            "written": files,
            "diagnostics": render::json(&inventory),
        });
        printer.result(&format!("{result:#}\n"))?;
    } else {
        for path in &written {
            printer.say(&format!("wrote {}", path.display()));
        }
        printer.say("");
        printer.say_raw(&render::text(&inventory, printer.color));
        printer.say_raw(&next(root, folder));
    }
    Ok(if inventory.has_errors() { Exit::Failed } else { Exit::Fine })
}

/// Text with the next commands, from a new inventory to a cluster.
fn next(root: &Path, folder: &Path) -> String {
    let mut place = String::new();
    if neighbours(root).len() > 1 {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        place.push_str(&format!(" {}", words::quoted(&name)));
    }
    if root != Path::new("inventory") {
        let root = words::quoted(&root.display().to_string());
        place.push_str(&format!(" --inventory {root}"));
    }
    let steps = [
        ("review the files".to_owned(), "names, addresses, sizes, storages"),
        (format!("talmox up --lab{place}"), "runs it in a lab; nothing real is changed"),
        (format!("talmox init --role{place}"), "prints how to create the token for Proxmox"),
        (format!("talmox check --live{place}"), "runs the preflight checks"),
        (format!("talmox up{place}"), "creates the cluster"),
    ];
    let row = |(number, (command, what)): (usize, (String, &str))| {
        [format!("  {}.", number + 1), command, what.to_owned()]
    };
    let rows: Vec<[String; 3]> = steps.into_iter().enumerate().map(row).collect();
    format!("Next:\n\n{}", words::aligned(&rows))
}

/// Returns an error if the cluster exists. This check runs before the other questions are asked.
fn refuse_existing(folder: &Path) -> Result<(), CommandError> {
    let names = ["cluster.yaml", "nodes.yaml"].map(|name| folder.join(name));
    new_file::refuse_existing(&names, "choose another cluster name; init never overwrites files")
}

/// Check of the answers against the existing clusters of the inventory.
struct Surroundings<'a> {
    root: &'a Path,
    asking: &'a Asking<'a>,
}

impl AnswerCheck for Surroundings<'_> {
    fn name(&self, cluster: &str) -> Result<(), CommandError> {
        let folder = self.root.join(cluster);
        refuse_existing(&folder)?;
        // Another folder may contain a cluster with this name.
        let text = format!("cluster_name: {cluster}\n");
        refuse(&checked(self.root, &folder, &text, ""), |found| found.code == Code::SharedClash)
    }

    fn certificate(&self, url: &ProxmoxUrl) -> Result<Certificate, CommandError> {
        confirm_fingerprint(url, self.asking)
    }

    fn addresses(&self, answers: &Answers) -> Result<(), CommandError> {
        let folder = self.root.join(&answers.cluster);
        let inventory =
            checked(self.root, &folder, &files::cluster(answers), &files::nodes(answers));
        refuse(&inventory, |found| found.code == Code::SharedClash)
    }
}

/// Returns an error if the new inventory has errors or conflicts with existing clusters. This check runs before files are
/// written.
pub(super) fn refuse_bad(
    root: &Path,
    folder: &Path,
    cluster: &str,
    nodes: &str,
) -> Result<(), CommandError> {
    refuse(&checked(root, folder, cluster, nodes), |_| true)
}

/// Checks the new files together with the existing clusters.
fn checked(root: &Path, folder: &Path, cluster: &str, nodes: &str) -> Inventory {
    let file = |name: &str, text: &str| {
        Some(File { path: folder.join(name), content: Ok(text.as_bytes().to_vec()) })
    };
    let mut files = vec![ClusterFiles {
        cluster: file("cluster.yaml", cluster),
        nodes: file("nodes.yaml", nodes),
        ..ClusterFiles::default()
    }];
    files.extend(neighbours(root));
    Parsed::new(files).check(&BTreeMap::new())
}

/// Returns an error for the first error finding that `is_meant` accepts.
fn refuse(
    inventory: &Inventory,
    is_meant: impl Fn(&Diagnostic) -> bool,
) -> Result<(), CommandError> {
    let is_error = |found: &&Diagnostic| found.severity == Severity::Error && is_meant(found);
    match inventory.diagnostics.iter().find(is_error) {
        None => Ok(()),
        Some(found) => {
            let error = CommandError::usage_as(found.code, &found.message);
            Err(match &found.hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
    }
}

/// Shows the fingerprint of the Proxmox certificate and asks for confirmation. Without a terminal, the fingerprint is not
/// written to the inventory.
fn confirm_fingerprint(url: &ProxmoxUrl, asking: &Asking<'_>) -> Result<Certificate, CommandError> {
    let printer = asking.printer;
    let found = match fingerprint::probe(&url.host, url.port, Duration::from_secs(5)) {
        Ok(found) => found.to_string(),
        Err(error) => {
            let reason = CommandError::failed(
                CommandCode::CertificateUnconfirmed,
                format!("no fingerprint from {url}"),
            )
            .because(error);
            printer.say(&format!("{} {}", printer.paint("warning:", "1;33"), reason.chain()));
            printer.say("Add `fingerprint:` to cluster.yaml when Proxmox is reachable.\n");
            return Ok(Certificate::Unconfirmed);
        }
    };
    printer.say_always(&format!("\n{url} has a certificate with this SHA-256 fingerprint:"));
    printer.say_always(&format!("  {found}"));
    printer.say_always(
        "Compare it with the fingerprint in the Proxmox web interface: host, System, Certificates.",
    );
    if !asking.is_asking {
        printer
            .say("It is not written to the inventory, because it was not confirmed. If it is correct, pass");
        printer.say("it with --fingerprint, or add it to cluster.yaml.\n");
        return Ok(Certificate::Unconfirmed);
    }
    Ok(if asking.yes_or_no("Are the fingerprints equal?", false)? {
        Certificate::Confirmed(found)
    } else {
        Certificate::Declined
    })
}
