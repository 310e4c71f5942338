//! Common options and output of `kubeconfig` and `talosconfig`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use talmox_engine::access::ClientFiles;
use talmox_talos_api::Reach;
use talmox_talos_config::client::{ClientError, ClientRole, Merged, kubeconfig, talosconfig};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, CertificateAndKey};
use talmox_talos_config::time::UnixTime;

use super::Outcome;
use crate::args::Format;
use crate::choose::{Chosen, ClientPaths};
use crate::command_code::CommandCode;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::rehearsal;
use crate::secrets;
use crate::session::client_files;

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Cluster [default: the only cluster of the inventory]
    #[arg(value_name = "CLUSTER")]
    pub(super) cluster: Option<String>,

    /// File to write; `-` for stdout [default: kubeconfig or talosconfig in the current folder]
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Merge into your own file, or into --output if given
    #[arg(long, conflicts_with = "force")]
    merge: bool,

    /// Replace an existing file
    #[arg(long)]
    force: bool,

    /// Validity of the certificate, such as 12h or 30d
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub(super) ttl: Duration,

    /// Write the client config of a running lab: file with the output of `talmox lab serve --format json`
    #[arg(long, value_name = "FILE")]
    lab_at: Option<PathBuf>,
}

/// Reach map and current time of the lab that a client file is for.
pub(super) struct LabTarget {
    pub(super) reach: Reach,
    pub(super) now: UnixTime,
}

impl ClientArgs {
    /// Lab that `--lab-at` names.
    pub(super) fn lab(&self) -> Result<Option<LabTarget>, CommandError> {
        let Some(file) = &self.lab_at else { return Ok(None) };
        let lab = rehearsal::join(file)?;
        let seconds = i64::try_from(lab.clock.unix()).unwrap_or(i64::MAX);
        Ok(Some(LabTarget { reach: lab.reach(), now: UnixTime::from_seconds(seconds) }))
    }
}

/// New kubeconfig or talosconfig.
pub(super) struct ClientFile<'a> {
    pub(super) kind: &'static str,
    pub(super) text: SecretText,
    pub(super) context: String,
    /// File that `--merge` changes by default.
    pub(super) own_file: Option<PathBuf>,
    pub(super) merge: fn(&str, &SecretText) -> Result<Merged, ClientError>,
    pub(super) authority: &'a CertificateAndKey,
}

/// Secrets bundle of a cluster with Talos nodes. A cluster of only Ubuntu nodes has other certificate authorities.
pub(super) fn bundle_of(chosen: &Chosen) -> Result<Bundle, CommandError> {
    if chosen.talos_nodes().next().is_none() {
        let message = format!("the cluster `{}` has no Talos nodes", chosen.cluster().name);
        return Err(CommandError::failed(CommandCode::NodeNotTalos, message)
            .hint("get the client files from the tool that installs its Kubernetes"));
    }
    secrets::bundle_of(chosen)
}

/// Writes a client file to stdout, to a new file, or into an existing file.
pub(super) fn deliver(
    args: &ClientArgs,
    file: &ClientFile<'_>,
    now: UnixTime,
    printer: &Printer,
) -> Outcome {
    let expires = now.plus(args.ttl);
    if let Ok(authority) = file.authority.authority()
        && authority.certificate.not_after < expires
    {
        let end = authority.certificate.not_after;
        printer.warn(&format!("the certificate authority expires earlier, on {end}"));
    }
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if is_stdout && args.merge {
        return Err(CommandError::usage("--merge needs a file, not stdout"));
    }
    if is_stdout {
        printer.file(file.text.expose())?;
        return Ok(Exit::Fine);
    }
    let (path, context) = if args.merge { merge(args, file)? } else { write(args, file)? };
    if printer.format == Format::Json {
        let result = json!({
            "written": path.display().to_string(),
            "context": context,
            "expires": expires.to_string(),
        });
        printer.result(&format!("{result:#}\n"))?;
    } else {
        let path = path.display();
        // `--merge` changes the current context of the user, so the message says so.
        let current = if args.merge { " (now the current context)" } else { "" };
        printer.say(&format!("wrote {path}: context `{context}`{current}, valid until {expires}"));
    }
    Ok(Exit::Fine)
}

fn write(args: &ClientArgs, file: &ClientFile<'_>) -> Result<(PathBuf, String), CommandError> {
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(file.kind));
    if path.exists() && !args.force {
        return Err(CommandError::failed(
            CommandCode::FileExists,
            format!("{} exists already", path.display()),
        )
        .hint("pass --merge to add to it, or --force to replace it"));
    }
    let before = if args.force { Before::Anything } else { Before::Absent };
    disk::write_private(&path, file.text.expose(), before)?;
    Ok((path, file.context.clone()))
}

fn merge(args: &ClientArgs, file: &ClientFile<'_>) -> Result<(PathBuf, String), CommandError> {
    let path = args.output.clone().or_else(|| file.own_file.clone()).ok_or_else(|| {
        CommandError::failed(CommandCode::HomeMissing, "there is no home folder")
            .hint("pass the path with --output PATH")
    })?;
    let context = merge_into(Some(path.clone()), &file.text, file.merge)?;
    Ok((path, context))
}

/// Returns an error if the kubeconfig is for a real cluster, because a kubeconfig for a lab must not replace it.
pub(super) fn refuse_real(paths: &ClientPaths) -> Result<(), CommandError> {
    let path = &paths.kubeconfig;
    match disk::read_secret(path)? {
        Some(text) if !client_files::is_for_lab(&text) => {
            let message = format!("nothing was changed: {} is for a real cluster", path.display());
            Err(CommandError::failed(CommandCode::ClientFilesConflict, message)
                .hint("write the files of the lab to another folder with --output DIR"))
        }
        _ => Ok(()),
    }
}

/// Writes the client files of a cluster, and replaces the files of an earlier `up`. Returns a message for each file.
pub(super) fn put(
    paths: &ClientPaths,
    files: &ClientFiles,
    is_lab: bool,
    merge: bool,
) -> Result<Vec<String>, CommandError> {
    let ClientPaths { kubeconfig: kube, talosconfig: talos } = paths;
    let kubeconfig = if is_lab {
        client_files::marked_for_lab(&files.kubeconfig)
    } else {
        files.kubeconfig.clone()
    };
    disk::write_private(kube, kubeconfig.expose(), Before::Anything)?;
    disk::write_private(talos, files.talosconfig.expose(), Before::Anything)?;
    let mut messages = vec![format!("wrote {} and {}", kube.display(), talos.display())];
    if merge {
        let mut add = |path: Option<PathBuf>, text, merge| {
            let shown = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            let context = merge_into(path, text, merge)?;
            messages.push(format!(
                "merged into {shown} as the context `{context}` (now the current context)"
            ));
            Ok(())
        };
        add(super::kubeconfig::own_file(), &files.kubeconfig, kubeconfig::merge)?;
        add(super::talosconfig::own_file(), &files.talosconfig, talosconfig::merge)?;
    }
    Ok(messages)
}

/// Returns an error if a file of `--merge` is unreadable or cannot be merged into. This check runs before any change.
pub(super) fn refuse_unmergeable(cluster: &str, bundle: &Bundle) -> Result<(), CommandError> {
    // These temporary client files are only used to test the merge.
    let (ttl, now) = (Duration::from_hours(1), environment::now());
    let kube = kubeconfig::KubeconfigRequest {
        cluster,
        server: "https://127.0.0.1:6443",
        tls_server_name: None,
        groups: &[],
        ttl,
    };
    let talos = talosconfig::TalosconfigRequest {
        context: cluster,
        endpoints: &[],
        nodes: &[],
        roles: &[ClientRole::Reader],
        ttl,
    };
    let failed = |error| {
        CommandError::failed(CommandCode::CertificateFailed, "cannot create the client files")
            .because(error)
    };
    let kube =
        kubeconfig::generate(bundle, &kube, now, &mut environment::Kernel).map_err(failed)?;
    let talos =
        talosconfig::generate(bundle, &talos, now, &mut environment::Kernel).map_err(failed)?;
    merged(super::kubeconfig::own_file(), &kube, kubeconfig::merge)?;
    merged(super::talosconfig::own_file(), &talos, talosconfig::merge)?;
    Ok(())
}

/// Result of a merge, and the content of the file before the merge.
struct MergedFile {
    path: PathBuf,
    known: Option<SecretText>,
    merged: Merged,
}

fn merged(
    path: Option<PathBuf>,
    text: &SecretText,
    merge: fn(&str, &SecretText) -> Result<Merged, ClientError>,
) -> Result<MergedFile, CommandError> {
    let path = path
        .ok_or_else(|| CommandError::failed(CommandCode::HomeMissing, "there is no home folder"))?;
    let known = disk::read_secret(&path)?;
    let existing = known.as_ref().map_or("", |text| text.expose());
    let merged = merge(existing, text).map_err(|error| {
        CommandError::failed(
            CommandCode::ClientFilesConflict,
            format!("cannot merge into {}", path.display()),
        )
        .because(error)
        .hint("correct the file, or move it away")
    })?;
    Ok(MergedFile { path, known, merged })
}

fn merge_into(
    path: Option<PathBuf>,
    text: &SecretText,
    merge: fn(&str, &SecretText) -> Result<Merged, ClientError>,
) -> Result<String, CommandError> {
    let MergedFile { path, known, merged } = merged(path, text, merge)?;
    let before = known.as_ref().map_or(Before::Absent, |text| Before::Holds(text.expose()));
    disk::write_private(&path, merged.text.expose(), before)?;
    Ok(merged.context)
}

/// Path in the home folder.
pub(super) fn at_home(path: &str) -> Option<PathBuf> {
    Some(environment::home()?.join(path))
}

/// Parses a duration such as `8760h`, `30d` or `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || "expected a duration such as 8760h, 30d or 1h30m".to_owned();
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        let factor = match rest.as_bytes().get(digits) {
            Some(b'd') => 86_400,
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => return Err(bad()),
        };
        seconds = number
            .checked_mul(factor)
            .and_then(|more| seconds.checked_add(more))
            .filter(|seconds| *seconds <= 100 * 366 * 86_400)
            .ok_or_else(|| "more than a hundred years".to_owned())?;
        rest = &rest[digits + 1..];
    }
    if seconds == 0 { Err(bad()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [("8760h", 31_536_000), ("30d", 2_592_000), ("1h30m5s", 5405)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for bad in ["", "5", "h", "5x", "-1h", "0s", "99999999999999999999h", "40000d", "5ä"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
