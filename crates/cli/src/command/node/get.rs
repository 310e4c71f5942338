//! `talmox node get`

use clap::Args;
use serde_json::Value as Json;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_config::client::ClientRole;

use super::access::{AccessArgs, Target};
use super::column::TableLayout;
use super::kind::{self, Kind};
use super::{block_on, resource_output};
use crate::args::{Format, Global};
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;

/// Read resources of a node: members, disks, links, extensions…
///
/// RESOURCE is a resource type by any name that talosctl accepts: members, ms, svc, Disks.block.talos.dev. Types that
/// talmox does not know are looked up on the node. The output has the fields of `talosctl get`: node, metadata
/// (namespace, type, id, version, owner, phase, created, updated, labels, annotations, finalizers) and spec. The table
/// has the columns that Talos defines for the type.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// Node: a name in the inventory, or an address
    #[arg(value_name = "NODE")]
    node: String,

    /// Resource type
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// Id of a resource [default: all resources]
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Namespace [default: that of the resource type]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Print node, metadata and spec as YAML
    #[arg(long)]
    yaml: bool,

    /// Use the admin role, for resource types that hold keys, such as machineconfig
    ///
    /// The table then shows no content. With --talosconfig it shows no content of types that hold keys. --yaml and
    /// --format json show everything.
    #[arg(long)]
    admin: bool,

    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &GetArgs, global: &Global, printer: &Printer) -> Outcome {
    if args.yaml && printer.format == Format::Json {
        return Err(CommandError::usage("--yaml cannot be used with --format json"));
    }
    let role = if args.admin { ClientRole::Admin } else { ClientRole::Reader };
    let target = Target::find(&args.node, &args.access, role, global, printer)?;
    let is_table = printer.format == Format::Text && !args.yaml;
    let (found, layout) = block_on(read(args, &target, is_table))?;
    let node = target.client.node().host.as_str();
    let text = match (printer.format, args.yaml) {
        (Format::Json, _) if args.id.is_some() => {
            found.iter().map(|one| format!("{:#}\n", resource_output::json(node, one))).collect()
        }
        (Format::Json, _) => {
            let all: Json = found.iter().map(|one| resource_output::json(node, one)).collect();
            format!("{all:#}\n")
        }
        (Format::Text, true) => {
            let all: Vec<_> = found.iter().map(|one| resource_output::yaml(node, one)).collect();
            all.join("---\n")
        }
        (Format::Text, false) => {
            // A talosconfig may have the admin role, so the found resources may contain keys.
            let may_be_admin = args.access.is_talosconfig();
            let is_hidden =
                |one: &Resource| args.admin || may_be_admin && kind::may_hold_keys(&one.kind);
            resource_output::table(node, &found, layout.as_ref(), is_hidden)
        }
    };
    printer.result(&text)?;
    Ok(Exit::Fine)
}

/// Reads the resources. For a table, also reads the column definitions.
async fn read(
    args: &GetArgs,
    target: &Target,
    is_table: bool,
) -> Result<(Vec<Resource>, Option<TableLayout>), CommandError> {
    let kind = kind_of(args, target).await?;
    let client = &target.client;
    let found = match &args.id {
        None => target.ask(async || client.list(kind.as_ref()).await).await?,
        Some(id) => {
            let one = target.ask(async || client.get(kind.as_ref(), id).await).await?;
            vec![one.ok_or_else(|| {
                let message = format!("{} has no `{id}` among its {}", target.title(), kind.name);
                let list = target.command("get", &args.resource);
                CommandError::failed(CommandCode::ResourceUnknown, message)
                    .hint(format!("{list} lists them"))
            })?]
        }
    };
    // If the column definitions cannot be read, the table shows the spec in short form.
    let definition = if is_table {
        client.get(ResourceKind::DEFINITION, &kind.name.to_lowercase()).await.ok()
    } else {
        None
    };
    Ok((found, definition.flatten().as_ref().and_then(TableLayout::of)))
}

/// Resource type that the RESOURCE argument names, in the namespace of `--namespace`.
async fn kind_of(args: &GetArgs, target: &Target) -> Result<Kind, CommandError> {
    let in_namespace = |kind: Kind| match &args.namespace {
        Some(namespace) => Kind { namespace: namespace.clone(), ..kind },
        None => kind,
    };
    if let Some(kind) = kind::known(&args.resource) {
        return Ok(in_namespace(kind));
    }
    let look_up = async || kind::look_up(&target.client, &args.resource).await;
    let mut found = target.ask(look_up).await?;
    match (found.len(), found.pop()) {
        (1, Some(kind)) => Ok(in_namespace(kind)),
        (_, Some(last)) => {
            let names: Vec<&str> = found.iter().chain([&last]).map(|one| &*one.name).collect();
            let message = format!("`{}` matches several kinds", args.resource);
            Err(CommandError::usage(message).hint(format!("use one of: {}", names.join(", "))))
        }
        (_, None) => {
            let message = format!("{} has no resource kind `{}`", target.title(), args.resource);
            let list = target.command("get", "resourcedefinitions");
            Err(CommandError::usage_as(CommandCode::ResourceUnknown, message)
                .hint(format!("{list} lists all kinds")))
        }
    }
}
