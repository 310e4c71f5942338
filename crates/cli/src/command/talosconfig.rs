//! `talmox talosconfig`

use std::time::Duration;

use std::path::PathBuf;

use clap::Args;
use talmox_model::Node;
use talmox_model::value::Role as NodeRole;
use talmox_talos_api::address::PORT;
use talmox_talos_api::{Reach, node_address};
use talmox_talos_config::client::ClientRole;
use talmox_talos_config::client::talosconfig::{self, TalosconfigRequest};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::time::UnixTime;

use super::Outcome;
use super::client::{self, ClientArgs, ClientFile};
use crate::args::Global;
use crate::choose::{self, Chosen};
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;

const AFTER_HELP: &str = "\
Examples:
  talmox talosconfig --merge
  talmox talosconfig --role os:reader --ttl 30d --output reader.talosconfig
  talmox talosconfig --lab-at lab.json --output lab.talosconfig";

/// Write a talosconfig, without contacting the cluster
///
/// --merge adds it to $TALOSCONFIG, or else to ~/.talos/config.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TalosconfigArgs {
    #[command(flatten)]
    client: ClientArgs,

    /// Talos role of the certificate: os:admin, os:operator, os:reader, os:etcd:backup…; repeatable
    #[arg(long = "role", value_name = "ROLE", default_value = "os:admin")]
    roles: Vec<ClientRole>,
}

pub(crate) fn run(args: &TalosconfigArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.client.cluster.as_deref(), printer)?;
    let bundle = client::bundle_of(&chosen)?;
    let lab = args.client.lab()?;
    let now = lab.as_ref().map_or_else(environment::now, |lab| lab.now);
    let mut endpoints = TalosEndpoints::of(&chosen, printer);
    if let Some(lab) = &lab {
        endpoints.apply_reach(&lab.reach);
    }
    let text = endpoints.generate(&bundle, &args.roles, args.client.ttl, now)?;
    let file = ClientFile {
        kind: "talosconfig",
        text,
        context: chosen.cluster().name.clone(),
        own_file: own_file(),
        merge: talosconfig::merge,
        authority: &bundle.certs.os,
    };
    client::deliver(&args.client, &file, now, printer)
}

/// Addresses that a talosconfig contains.
pub(crate) struct TalosEndpoints<'a> {
    context: &'a str,
    /// Addresses of the control planes.
    endpoints: Vec<String>,
    /// Addresses of all nodes.
    nodes: Vec<String>,
}

impl<'a> TalosEndpoints<'a> {
    pub(crate) fn of(chosen: &'a Chosen, printer: &Printer) -> Self {
        let address = |node: &Node| node.contact().map(|address| address.to_string());
        let controlplanes = chosen.talos_nodes().filter(|node| node.role == NodeRole::ControlPlane);
        let endpoints: Vec<String> = controlplanes.filter_map(address).collect();
        if endpoints.is_empty() {
            printer
                .warn("no control plane has an address in the inventory, so the talosconfig has no endpoints");
        }
        let nodes = chosen.talos_nodes().filter_map(address).collect();
        Self { context: &chosen.cluster().name, endpoints, nodes }
    }

    /// Replaces the addresses by the target addresses of the reach map.
    fn apply_reach(&mut self, reach: &Reach) {
        for endpoint in &mut self.endpoints {
            let target = reach.target(&node_address(endpoint.as_str()));
            *endpoint = if target.port == PORT { target.host } else { target.to_string() };
        }
    }

    pub(crate) fn generate(
        &self,
        bundle: &Bundle,
        roles: &[ClientRole],
        ttl: Duration,
        now: UnixTime,
    ) -> Result<SecretText, CommandError> {
        let request = TalosconfigRequest {
            context: self.context,
            endpoints: &self.endpoints,
            nodes: &self.nodes,
            roles,
            ttl,
        };
        talosconfig::generate(bundle, &request, now, &mut environment::Kernel).map_err(|error| {
            CommandError::failed(CommandCode::CertificateFailed, "cannot create the talosconfig")
                .because(error)
        })
    }

    /// Whether a talosconfig matches the current inventory and secrets.
    pub(crate) fn describes(&self, talosconfig: &str, bundle: &Bundle) -> bool {
        let documents = talmox_yaml::read(talosconfig).unwrap_or_default();
        let root = documents.first().and_then(talmox_yaml::Node::as_map);
        let context = root
            .and_then(|root| root.get("contexts")?.as_map()?.get(self.context)?.as_map())
            .map(|context| {
                let list = |key: &str| -> Vec<String> {
                    let items = context.get(key).and_then(talmox_yaml::Node::as_seq);
                    let items = items.map(|seq| seq.items.as_slice()).unwrap_or_default();
                    items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
                };
                let authority = context.get("ca").and_then(talmox_yaml::Node::as_str);
                (list("endpoints"), list("nodes"), authority.map(str::to_owned))
            });
        let authority = Some(bundle.certs.os.crt_base64());
        context == Some((self.endpoints.clone(), self.nodes.clone(), authority))
    }
}

/// File that talosctl writes to.
pub(crate) fn own_file() -> Option<PathBuf> {
    environment::path("TALOSCONFIG").or_else(|| client::at_home(".talos/config"))
}
