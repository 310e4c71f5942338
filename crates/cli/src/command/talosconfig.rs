//! `talmox talosconfig`

use clap::Args;
use talmox_model::Node;
use talmox_model::value::Role as NodeRole;
use talmox_talos_config::client::Role;
use talmox_talos_config::client::talosconfig::{self, Request};
use talmox_talos_config::random::SystemRandomness;

use super::Outcome;
use super::client::{self, ClientArgs, ClientFile};
use crate::args::Global;
use crate::choose;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets;

/// Write a talosconfig, without contacting the cluster
///
/// --merge puts it into $TALOSCONFIG, else into ~/.talos/config.
#[derive(Debug, Args)]
pub(crate) struct TalosconfigArgs {
    #[command(flatten)]
    client: ClientArgs,

    /// What its owner may do: os:admin, os:operator, os:reader, os:etcd:backup…; repeatable
    #[arg(long = "role", value_name = "ROLE", default_value = "os:admin")]
    roles: Vec<Role>,
}

pub(crate) fn run(args: &TalosconfigArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.client.cluster.as_deref(), printer)?;
    let name = &chosen.cluster().name;
    let bundle = secrets::bundle_of(&chosen)?;
    let address = |node: &Node| node.address().map(|address| address.to_string());
    let nodes: Vec<String> = chosen.talos_nodes().filter_map(address).collect();
    let controlplanes = chosen.talos_nodes().filter(|node| node.role == NodeRole::ControlPlane);
    let endpoints: Vec<String> = controlplanes.filter_map(address).collect();
    if endpoints.is_empty() {
        printer.warn("no control plane has an address in the inventory: there are no endpoints");
    }
    let request = Request {
        context: name,
        endpoints: &endpoints,
        nodes: &nodes,
        roles: &args.roles,
        ttl: args.client.ttl,
    };
    let now = environment::now();
    let text = talosconfig::generate(&bundle, &request, now, &mut SystemRandomness::new())
        .map_err(|error| CommandError::failed("cannot make the talosconfig").because(error))?;
    let file = ClientFile {
        kind: "talosconfig",
        text,
        context: name.clone(),
        own_file: environment::path("TALOSCONFIG").or_else(|| client::at_home(".talos/config")),
        merge: talosconfig::merge,
        authority: &bundle.certs.os,
    };
    client::deliver(&args.client, &file, now, printer)
}
