//! Image of a node: schematic, disk image and installer.

use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};
use talmox_talos_config::contract::Contract;
use talmox_talos_config::meta::MetaValue;
use talmox_talos_config::schematic::Schematic;

use super::error::DeriveError;
use super::identity::NodeIdentity;
use super::{extras, network};

/// Platform of a Talos image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// The node reads its address and config from a drive.
    Nocloud,
    /// The image contains the address of the node, as a META value of its schematic.
    Metal,
}

impl Platform {
    pub fn of(node: &Node) -> Self {
        match node.settings().system.boot.required() {
            Boot::Meta => Self::Metal,
            _ => Self::Nocloud,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Nocloud => "nocloud",
            Self::Metal => "metal",
        }
    }
}

/// The image of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The schematic. None if the inventory sets a schematic ID.
    pub schematic: Option<Schematic>,
    pub id: String,
    pub platform: Platform,
    /// The container image that installs and upgrades Talos.
    pub installer: String,
}

impl Image {
    pub fn of(
        cluster: &Cluster,
        node: &Node,
        identity: &NodeIdentity,
        contract: Contract,
    ) -> Result<Self, DeriveError> {
        let system = &node.settings().system;
        let talos = cluster.file.talos_version.get().ok_or(DeriveError::Missing {
            what: "the Talos version",
            hint: "add `talos_version:`",
        })?;
        let platform = Platform::of(node);
        let (schematic, id) = if let Some(id) = system.image.schematic.get() {
            (None, id.hex())
        } else {
            let schematic = schematic(cluster, node, identity)?;
            let id = schematic.id();
            (Some(schematic), id)
        };
        let factory = system.image.factory.required();
        let host = match factory.port {
            Some(port) => format!("{}:{port}", factory.host),
            None => factory.host.clone(),
        };
        let secureboot =
            if *node.settings().hardware.secureboot.required() { "-secureboot" } else { "" };
        let name = if contract.platform_installers() {
            format!("{}-installer{secureboot}", platform.as_str())
        } else {
            format!("installer{secureboot}")
        };
        Ok(Self { schematic, installer: format!("{host}/{name}/{id}:{talos}"), id, platform })
    }
}

fn schematic(
    cluster: &Cluster,
    node: &Node,
    identity: &NodeIdentity,
) -> Result<Schematic, DeriveError> {
    let image = &node.settings().system.image;
    let own = image.extensions.values().map(ToString::to_string);
    let extensions = own.chain(extras::extensions(node));
    let mut schematic = Schematic::default().with_extensions(extensions);
    let kernel_args = &mut schematic.customization.extra_kernel_args;
    kernel_args.extend(image.kernel_args.values().cloned());
    if Platform::of(node) == Platform::Metal {
        // The network settings in the schematic name the first card `eth0`.
        let plain_names = "net.ifnames=0".to_owned();
        if !kernel_args.contains(&plain_names) {
            kernel_args.push(plain_names);
        }
        let network = network::first_network(cluster, node, identity)?;
        schematic.customization.meta.push(MetaValue::metal_network(&network));
    }
    Ok(schematic)
}
