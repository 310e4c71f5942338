//! Image Factory, and the server of the Ubuntu cloud images.
//!
//! The images are small but valid in their formats. [`crate::image`] reads them. There is no registry, because the nodes of the
//! lab resolve the references of installers themselves.

mod answer;
mod artefact;
mod body;
mod catalog;
mod installer;
mod kernel;
mod pack;
mod range;
mod route;
mod schematics;
mod server;
mod ubuntu;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use semver::Version;
use talmox_lab_environment::Work;
use talmox_lab_environment::{Environment, Folder};
use talmox_talos_config::schematic::Schematic;
use tokio::sync::OnceCell;

use answer::HttpAnswer;
use artefact::{Artefact, ArtefactFormat, ImageTarget};
use schematics::Schematics;

use crate::hypervisor::Hypervisor;
use crate::image::{Medium, Scale, System, TalosImage};

pub use server::FactoryServer;

/// Host names of the Image Factory and of the Ubuntu server.
pub const HOSTS: [&str; 2] = ["factory.talos.dev", ubuntu::HOST];
/// Cluster size of the qcow2 images from the Image Factory: 8 KiB.
const CLUSTER_BITS: u32 = 13;

#[derive(Debug)]
pub struct Factory {
    environment: Arc<Environment>,
    hypervisor: Arc<dyn Hypervisor>,
    schematics: Schematics,
    signer: Signer,
    /// Images that were already requested. Only the first request of an image takes the time of a build.
    built: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

/// Key pair that signs images, as PEM. The lab does not verify the signatures.
#[derive(Debug)]
pub struct Signer {
    pub certificate: String,
    pub public_key: String,
}

impl Factory {
    /// Opens the Image Factory. Uploaded schematics are stored in this folder.
    pub fn open(
        environment: Arc<Environment>,
        hypervisor: Arc<dyn Hypervisor>,
        folder: Arc<Folder>,
        signer: Signer,
    ) -> io::Result<Self> {
        let schematics = Schematics::open(folder)?;
        Ok(Self { environment, hypervisor, schematics, signer, built: Mutex::default() })
    }

    /// Waits for the simulated time of a build. Concurrent requests for the same image share one build.
    async fn wait_for_build(&self, what: &str) {
        let cell = {
            let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(built.entry(what.to_owned()).or_default())
        };
        cell.get_or_init(|| self.environment.wait(Work::Build, what)).await;
    }
}

/// Bytes of an image.
fn build(artefact: Artefact, version: &Version, schematic: Schematic) -> Vec<u8> {
    let Artefact { target, format, packing } = artefact;
    let ImageTarget { platform, arch, secureboot } = target;
    let arguments = kernel::arguments(target, version, &schematic);
    let medium = if format == ArtefactFormat::Iso { Medium::Iso } else { Medium::Disk };
    let image = TalosImage::new(format!("v{version}"), platform, schematic, secureboot, medium);
    let system = System::Talos(image);
    let bytes = match format {
        ArtefactFormat::Iso => system.iso(arch),
        ArtefactFormat::Raw => system.disk(arch, Scale::Small).to_raw(),
        ArtefactFormat::Qcow2 => system.disk(arch, Scale::Full).to_qcow2(CLUSTER_BITS),
        ArtefactFormat::Cmdline => arguments.into_bytes(),
    };
    packing.pack(bytes)
}

/// Rejects a schematic if an extension or the overlay does not exist for this Talos version.
fn check(schematic: &Schematic, version: &Version) -> Result<(), HttpAnswer> {
    let rejected = |text: String| {
        Err(HttpAnswer::error(400, &format!("error enhancing profile from schematic: {text}")))
    };
    let own = &schematic.customization;
    if !own.embedded_machine_configuration.is_empty() && version.minor < 12 {
        return rejected(format!(
            "embedding configuration is not supported for Talos version v{version}"
        ));
    }
    if !own.official_extensions.is_empty() {
        is_available(version).map_err(|answer| {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let context =
                "error enhancing profile from schematic: error getting official extensions";
            HttpAnswer::error(404, &format!("{context}: {}", text.trim_end()))
        })?;
    }
    let mut extensions = own.official_extensions.iter();
    if let Some(name) = extensions.find(|name| !catalog::is_extension(version, name)) {
        return rejected(format!(
            "official extension {name:?} is not available for Talos version v{version}"
        ));
    }
    if let Some(overlay) = &schematic.overlay
        && is_available(version).is_ok()
        && !catalog::overlays(version).iter().any(|known| known.name == overlay.name)
    {
        let name = &overlay.name;
        return rejected(format!(
            "official overlay {name:?} is not available for Talos version v{version}"
        ));
    }
    is_available(version)
}

fn is_available(version: &Version) -> Result<(), HttpAnswer> {
    if catalog::versions().contains(version) {
        return Ok(());
    }
    Err(HttpAnswer::error(404, &format!("version {version} is not available")))
}

/// Parses a version with or without the prefix `v`. For any other text, the Image Factory answers with an internal error.
fn parse_version(text: &str) -> Result<Version, HttpAnswer> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).map_err(|_| HttpAnswer::internal())
}
