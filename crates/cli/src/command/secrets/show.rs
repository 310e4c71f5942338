//! `talmox secrets show`

use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_talos_config::secrets::{Bundle, CertificateSummary};
use talmox_talos_config::time::UnixTime;

use super::ClusterArg;
use crate::args::{Format, Global};
use crate::choose::{self, Chosen};
use crate::command::Outcome;
use crate::environment;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::reference::{self, Reference, Resolver};
use crate::secrets::SecretsFile;

/// List the secrets, and the expiry of the certificates
///
/// Keys and other values are never shown.
#[derive(Debug, Args)]
pub(crate) struct SecretsShowArgs {
    #[command(flatten)]
    cluster: ClusterArg,

    /// Also resolve every secret reference of the inventory, and report missing secrets
    #[arg(long)]
    resolve: bool,
}

/// Secret reference and the result of its resolution.
type Resolved<'a> = (Reference<'a>, Result<(), CommandError>);

pub(super) fn run(args: &SecretsShowArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let file = match SecretsFile::open(&chosen)? {
        // An inventory without `{secret: …}` references needs no secrets file.
        None if args.resolve => None,
        None => Some(SecretsFile::open_existing(&chosen)?),
        file => file,
    };
    let bundle = file.as_ref().map(SecretsFile::bundle).transpose()?.flatten();
    let references = if args.resolve { resolve(&chosen, printer) } else { vec![] };
    let now = environment::now();
    if printer.format == Format::Json {
        let mut json = to_json(file.as_ref(), bundle.as_ref(), now);
        if args.resolve {
            json["references"] = references.iter().map(reference_json).collect();
        }
        printer.result(&format!("{json:#}\n"))?;
    } else {
        let mut text = file.map(|file| to_text(&file, bundle.as_ref(), now)).unwrap_or_default();
        if args.resolve {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{}", references_text(&references)));
        }
        printer.result(&text)?;
    }
    let is_missing = references.iter().any(|(_, outcome)| outcome.is_err());
    Ok(if is_missing { Exit::Failed } else { Exit::Fine })
}

fn resolve<'a>(chosen: &'a Chosen, printer: &Printer) -> Vec<Resolved<'a>> {
    let resolver = Resolver::new(chosen, printer);
    let references = reference::all(chosen).into_iter();
    references.map(|found| (found, resolver.resolve(found).map(drop))).collect()
}

fn to_text(file: &SecretsFile, bundle: Option<&Bundle>, now: UnixTime) -> String {
    let recipients: Vec<&str> = file.document.recipients().collect();
    let mut out = format!("{}\n", file.path.display());
    out.push_str(&format!("encrypted for {}\n\n", recipients.join(", ")));
    match bundle {
        None => out.push_str("no Talos bundle; run `talmox secrets init`\n"),
        Some(bundle) => {
            let line = |cells: [&str; 4]| {
                let [name, subject, expires, remaining] = cells;
                format!("{name:13}  {subject:12}  {expires:20}  {remaining}\n")
            };
            out.push_str(&line(["certificate", "subject", "expires", "remaining"]));
            for summary in bundle.certificates() {
                let (subject, expires) = match &summary.certificate {
                    Ok(known) => (known.subject.to_string(), known.not_after.to_string()),
                    Err(error) => (String::new(), error.to_string()),
                };
                let subject = if subject.is_empty() { "(none)" } else { &subject };
                let remaining = remaining(summary.remaining(now));
                out.push_str(&line([summary.name, subject, &expires, &remaining]));
            }
        }
    }
    let others = file.other_paths();
    if !others.is_empty() {
        out.push_str(&format!("\nother secrets: {}\n", others.join(", ")));
    }
    out
}

fn remaining(left: Option<Duration>) -> String {
    let Some(left) = left else {
        return "expired".to_owned();
    };
    let (hours, days) = (left.as_secs() / 3600, left.as_secs() / 86_400);
    match (days / 365, days % 365) {
        (0, 0..2) => format!("{hours} hours"),
        (0, days) => format!("{days} days"),
        (years, days) => format!("{years} years, {days} days"),
    }
}

fn references_text(references: &[Resolved<'_>]) -> String {
    let mut out = "secret references of the inventory:\n".to_owned();
    for (found, outcome) in references {
        let place = reference::describe(&found.secret.value);
        match outcome {
            Ok(()) => out.push_str(&format!("  found    {}: {place}\n", found.setting)),
            Err(error) => out.push_str(&format!("  MISSING  {}\n", error.chain())),
        }
    }
    if references.is_empty() {
        out.push_str("  none\n");
    }
    out
}

fn reference_json((found, outcome): &Resolved<'_>) -> Json {
    let mut json = json!({
        "setting": found.setting.to_string(),
        "from": reference::describe(&found.secret.value),
        "found": outcome.is_ok(),
    });
    if let Err(error) = outcome {
        json["error"] = json!(error.chain());
    }
    json
}

fn to_json(file: Option<&SecretsFile>, bundle: Option<&Bundle>, now: UnixTime) -> Json {
    let certificates: Vec<Json> = bundle
        .into_iter()
        .flat_map(Bundle::certificates)
        .map(|summary| certificate_json(&summary, now))
        .collect();
    json!({
        "file": file.map(|file| file.path.display().to_string()),
        "recipients": file.map(|file| file.document.recipients().collect::<Vec<_>>()),
        "certificates": certificates,
        "secrets": file.map(SecretsFile::other_paths),
    })
}

fn certificate_json(summary: &CertificateSummary, now: UnixTime) -> Json {
    let mut json = json!({ "name": summary.name });
    match &summary.certificate {
        Ok(known) => {
            json["subject"] = json!(known.subject.to_string());
            json["not_before"] = json!(known.not_before.to_string());
            json["not_after"] = json!(known.not_after.to_string());
            json["remaining_seconds"] =
                json!(summary.remaining(now).map_or(0, |left| left.as_secs()));
        }
        Err(error) => json["error"] = json!(error.to_string()),
    }
    json
}
