//! `talmox node get`

use clap::Args;
use serde_json::{Value as Json, json};
use talmox_talos_api::client::Resource;
use talmox_talos_config::client::Role;
use talmox_yaml::build::text;

use super::access::{AccessArgs, Target};
use super::kind::{self, Kind};
use super::{block_on, spec};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::words;

/// Read resources of a node: members, disks, links, extensions…
///
/// RESOURCE is a kind by any name that talosctl knows: members, ms, svc, Disks.block.talos.dev. Kinds
/// that talmox has never heard of are looked up on the node.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The node: a name of the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// The kind of resources
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// One of them [default: all]
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// The namespace, if not the usual one of the kind
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Print all of it as YAML
    #[arg(long)]
    yaml: bool,

    /// Ask with all rights: for kinds that hold keys, such as machineconfig
    ///
    /// The table then shows no content, nor does it of such kinds with a talosconfig; --yaml and --format json show
    /// everything.
    #[arg(long)]
    admin: bool,

    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &GetArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.yaml && printer.format == Format::Json {
        return Err(CommandError::usage("either --yaml or --format json"));
    }
    let role = if args.admin { Role::Admin } else { Role::Reader };
    let target = Target::find(&args.node, &args.access, role, global, printer)?;
    let found = block_on(read(args, &target))?;
    let text = match (printer.format, args.yaml) {
        (Format::Json, _) if args.id.is_some() => {
            found.iter().map(|one| format!("{:#}\n", to_json(one))).collect()
        }
        (Format::Json, _) => format!("{:#}\n", found.iter().map(to_json).collect::<Json>()),
        (Format::Text, true) => found.iter().map(to_yaml).collect::<Vec<_>>().join("---\n"),
        (Format::Text, false) => {
            // A talosconfig may have all rights, and then kinds come that hold keys.
            let may_be_admin = args.access.is_talosconfig();
            let is_hidden =
                |one: &Resource| args.admin || may_be_admin && kind::may_hold_keys(&one.kind);
            to_table(&found, is_hidden)
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

async fn read(args: &GetArgs, target: &Target) -> Result<Vec<Resource>, CommandError> {
    let kind = kind_of(args, target).await?;
    let Some(id) = &args.id else {
        let list = target.client.list(kind.as_ref()).await;
        return match list {
            Ok(found) => Ok(found),
            Err(error) => Err(target.explain(error).await),
        };
    };
    match target.client.get(kind.as_ref(), id).await {
        Ok(Some(one)) => Ok(vec![one]),
        Ok(None) => {
            let message = format!("{} has no `{id}` among its {}", target.title(), kind.name);
            Err(CommandError::failed(message)
                .hint(format!("`talmox node get {} {}` lists them", args.node, args.resource)))
        }
        Err(error) => Err(target.explain(error).await),
    }
}

/// What is meant by RESOURCE, in the namespace that is wanted.
async fn kind_of(args: &GetArgs, target: &Target) -> Result<Kind, CommandError> {
    let in_namespace = |kind: Kind| match &args.namespace {
        Some(namespace) => Kind { namespace: namespace.clone(), ..kind },
        None => kind,
    };
    if let Some(kind) = kind::known(&args.resource) {
        return Ok(in_namespace(kind));
    }
    let mut found = match kind::look_up(&target.client, &args.resource).await {
        Ok(found) => found,
        Err(error) => return Err(target.explain(error).await),
    };
    match (found.len(), found.pop()) {
        (1, Some(kind)) => Ok(in_namespace(kind)),
        (_, Some(last)) => {
            let names: Vec<&str> = found.iter().chain([&last]).map(|one| &*one.name).collect();
            let message = format!("`{}` may mean several kinds", args.resource);
            Err(CommandError::usage(message).hint(format!("name one: {}", names.join(", "))))
        }
        (_, None) => {
            let message =
                format!("{} knows no kind of resources `{}`", target.title(), args.resource);
            Err(CommandError::usage(message).hint(format!(
                "`talmox node get {} resourcedefinitions` lists all kinds",
                args.node
            )))
        }
    }
}

fn to_table(found: &[Resource], is_hidden: impl Fn(&Resource) -> bool) -> String {
    let row = |one: &Resource| {
        let short = one.tree().filter(|_| !is_hidden(one)).map(|tree| spec::short(&tree));
        [one.namespace.clone(), one.id.clone(), one.version.clone(), short.unwrap_or_default()]
    };
    let is_empty = !found.is_empty() && found.iter().all(&is_hidden);
    let headings = ["NAMESPACE", "ID", "VERSION", if is_empty { "" } else { "SPEC" }];
    let rows: Vec<_> =
        std::iter::once(headings.map(str::to_owned)).chain(found.iter().map(row)).collect();
    words::aligned(&rows)
}

fn to_json(one: &Resource) -> Json {
    json!({
        "namespace": one.namespace,
        "type": one.kind,
        "id": one.id,
        "version": one.version,
        "phase": one.phase,
        "labels": one.labels,
        "spec": if is_many(one) {
            Some(one.yaml().expose().into())
        } else {
            one.tree().map(|tree| spec::json(&tree))
        },
    })
}

/// Whether the spec is of several documents, as machine configs are: then it is passed on as one text, so that nothing
/// of it is lost.
fn is_many(one: &Resource) -> bool {
    talmox_yaml::read(one.yaml().expose()).is_ok_and(|documents| documents.len() > 1)
}

/// As talosctl writes it; the spec as it came.
fn to_yaml(one: &Resource) -> String {
    let mut metadata = String::from("metadata:\n");
    for (key, value) in [
        ("namespace", &one.namespace),
        ("type", &one.kind),
        ("id", &one.id),
        ("version", &one.version),
        ("phase", &one.phase),
    ] {
        let value = talmox_yaml::emit(&text(value), 4);
        metadata.push_str(&format!("    {key}: {}\n", value.trim_end()));
    }
    let spec = one.yaml().expose();
    if spec.trim().is_empty() {
        return format!("{metadata}spec: {{}}\n");
    }
    let indented: String = spec
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    let opening = if is_many(one) { " |" } else { "" };
    format!("{metadata}spec:{opening}\n{indented}")
}
