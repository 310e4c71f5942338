//! `talmox secrets set`

use std::io::{self, IsTerminal as _};
use std::path::Path;

use clap::Args;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::sops::SopsDocument;

use super::{ClusterArg, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::prompt;
use crate::secrets::{self, SecretsFile, read_input};

/// Set one secret, such as proxmox.token, from stdin
///
/// On a terminal it prompts for the value without echo.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Path in secrets.sops.yaml: proxmox.token, tailscale.auth_key, values.…
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    cluster: ClusterArg,
}

pub(super) fn run(args: &SetArgs, global: &Global, printer: &Printer) -> Outcome {
    let path = args.path.as_str();
    refuse_path(path)?;
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let value = if io::stdin().is_terminal() {
        let value = prompt::secret(&format!("Value of {path} (not echoed): "), printer)?;
        SecretText::new(value.expose().trim())
    } else {
        let input = read_input(Path::new("-"))?;
        SecretText::new(input.expose().trim_end_matches(['\n', '\r']))
    };
    if value.is_empty() {
        return Err(CommandError::failed(
            CommandCode::SecretUnset,
            "the value is empty; nothing was written",
        ));
    }
    let _lock = secrets::lock(&chosen, printer)?;
    let mut file = match SecretsFile::open(&chosen)? {
        Some(file) => file,
        None => SecretsFile::new(&chosen, &[], printer)?,
    };
    refuse_shape(&file.document, path)?;
    file.document.set_text(path, &value);
    file.save()?;
    printer.say(&format!("set `{path}` in {}", file.path.display()));
    report(&file, true, printer)
}

fn refuse_path(path: &str) -> Result<(), CommandError> {
    let first = path.split('.').next().unwrap_or_default();
    if path.split('.').any(str::is_empty) || first == "sops" {
        return Err(CommandError::usage(format!("`{path}` is not the path of a secret"))
            .hint("use a path such as proxmox.token or values.mail.password"));
    }
    if first == "talos" {
        return Err(CommandError::usage("the Talos bundle is the identity of the cluster")
            .hint("it is created by `talmox secrets init` or `import`, and cannot be changed"));
    }
    Ok(())
}

/// Returns an error if the value at the path is a mapping or a list, or if a parent of the path is a text. Setting the
/// value would replace that content.
fn refuse_shape(document: &SopsDocument, path: &str) -> Result<(), CommandError> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    for end in ends {
        let Some(node) = document.get(&path[..end]).filter(|node| !node.is_null()) else {
            continue;
        };
        let is_leaf = end == path.len();
        if is_leaf != node.as_scalar().is_some() || node.as_seq().is_some() {
            let message = format!("`{}` is already {}", &path[..end], node.describe());
            return Err(CommandError::failed(CommandCode::SecretsExist, message)
                .hint("run `talmox secrets edit` to change it"));
        }
    }
    Ok(())
}
