//! `talmox kubeconfig`

use std::env;
use std::path::PathBuf;

use clap::Args;
use talmox_engine::access::kubernetes_server;
use talmox_talos_config::client::kubeconfig::{self, KubeconfigRequest};

use super::Outcome;
use super::client::{self, ClientArgs, ClientFile};
use crate::args::Global;
use crate::choose;
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::session::client_files;

const AFTER_HELP: &str = "\
Examples:
  talmox kubeconfig --merge
  talmox kubeconfig --ttl 12h --output for-today.kubeconfig
  talmox kubeconfig --lab-at lab.json --output lab.kubeconfig";

/// Write an admin kubeconfig, without contacting the cluster
///
/// --merge adds it to $KUBECONFIG, or else to ~/.kube/config.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct KubeconfigArgs {
    #[command(flatten)]
    client: ClientArgs,

    /// Kubernetes group of the certificate; repeatable
    #[arg(long = "role", value_name = "GROUP", default_value = "system:masters")]
    groups: Vec<String>,
}

pub(crate) fn run(args: &KubeconfigArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.client.cluster.as_deref(), printer)?;
    let bundle = client::bundle_of(&chosen)?;
    let cluster = chosen.cluster();
    let server = cluster.endpoint().ok_or_else(|| {
        CommandError::failed(
            CommandCode::EndpointMissing,
            format!("the address of the Kubernetes API of `{}` is not known", cluster.name),
        )
        .hint("set `endpoint:` or `network.vip:`, or the address of the first control plane")
    })?;
    let lab = args.client.lab()?;
    let (server, tls_server_name) = match &lab {
        Some(lab) => kubernetes_server(&server.to_string(), &lab.reach),
        None => (server.to_string(), None),
    };
    let request = KubeconfigRequest {
        cluster: &cluster.name,
        server: &server,
        tls_server_name: tls_server_name.as_deref(),
        groups: &args.groups,
        ttl: args.client.ttl,
    };
    let now = lab.as_ref().map_or_else(environment::now, |lab| lab.now);
    let text = kubeconfig::generate(&bundle, &request, now, &mut environment::Kernel).map_err(
        |error| {
            CommandError::failed(CommandCode::CertificateFailed, "cannot create the kubeconfig")
                .because(error)
        },
    )?;
    let text = if lab.is_some() { client_files::marked_for_lab(&text) } else { text };
    let file = ClientFile {
        kind: "kubeconfig",
        text,
        context: format!("admin@{}", cluster.name),
        own_file: own_file(),
        merge: kubeconfig::merge,
        authority: &bundle.certs.k8s,
    };
    client::deliver(&args.client, &file, now, printer)
}

/// File that kubectl writes to. If `KUBECONFIG` has several paths, this is the first path that exists, or else the last
/// path.
pub(crate) fn own_file() -> Option<PathBuf> {
    let Some(list) = environment::raw("KUBECONFIG").filter(|list| !list.is_empty()) else {
        return client::at_home(".kube/config");
    };
    let paths: Vec<PathBuf> =
        env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
    let existing = paths.iter().find(|path| path.exists());
    existing.or(paths.last()).cloned()
}
