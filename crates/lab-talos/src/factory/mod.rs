//! The Image Factory, and the host that Ubuntu's cloud images come from.
//!
//! Images are small, but true to their formats; what is in them [`crate::image`] finds again. There is
//! no registry: the lab's nodes know what an installer's name means.

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

use answer::Answer;
use artefact::{Artefact, Form, Machine};
use schematics::Schematics;

use crate::hypervisor::Hypervisor;
use crate::image::{Medium, Scale, System, TalosImage};

pub use server::Server;

/// The names that the lab's servers stand for.
pub const HOSTS: [&str; 2] = ["factory.talos.dev", ubuntu::HOST];
/// The factory's own choice for qcow2: 8 KiB.
const CLUSTER_BITS: u32 = 13;

#[derive(Debug)]
pub struct Factory {
    environment: Arc<Environment>,
    hypervisor: Arc<dyn Hypervisor>,
    schematics: Schematics,
    signer: Signer,
    /// What was asked for before. Building is slow only the first time.
    built: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

/// Who vouches for images, as PEM. Nothing in the lab checks it.
#[derive(Debug)]
pub struct Signer {
    pub certificate: String,
    pub public_key: String,
}

impl Factory {
    /// Keeps the schematics that are posted in this folder.
    pub fn open(
        environment: Arc<Environment>,
        hypervisor: Arc<dyn Hypervisor>,
        folder: Arc<Folder>,
        signer: Signer,
    ) -> io::Result<Self> {
        let schematics = Schematics::open(folder)?;
        Ok(Self { environment, hypervisor, schematics, signer, built: Mutex::default() })
    }

    /// Lets the time pass that a build takes. Who asks while it runs waits for the same one.
    async fn wait_for_build(&self, what: &str) {
        let cell = {
            let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(built.entry(what.to_owned()).or_default())
        };
        cell.get_or_init(|| self.environment.wait(Work::Build, what)).await;
    }
}

/// The bytes of an image.
fn build(artefact: Artefact, version: &Version, schematic: Schematic) -> Vec<u8> {
    let Artefact { machine, form, packing } = artefact;
    let Machine { platform, arch, secureboot } = machine;
    let arguments = kernel::arguments(machine, version, &schematic);
    let medium = if form == Form::Iso { Medium::Iso } else { Medium::Disk };
    let image = TalosImage::new(format!("v{version}"), platform, schematic, secureboot, medium);
    let system = System::Talos(image);
    let bytes = match form {
        Form::Iso => system.iso(arch),
        Form::Raw => system.disk(arch, Scale::Small).to_raw(),
        Form::Qcow2 => system.disk(arch, Scale::Full).to_qcow2(CLUSTER_BITS),
        Form::Cmdline => arguments.into_bytes(),
    };
    packing.pack(bytes)
}

/// What a schematic asks for must be there for that version of Talos.
fn check(schematic: &Schematic, version: &Version) -> Result<(), Answer> {
    let refused = |text: String| {
        Err(Answer::error(400, &format!("error enhancing profile from schematic: {text}")))
    };
    let own = &schematic.customization;
    if !own.embedded_machine_configuration.is_empty() && version.minor < 12 {
        return refused(format!(
            "embedding configuration is not supported for Talos version v{version}"
        ));
    }
    if !own.official_extensions.is_empty() {
        is_available(version).map_err(|answer| {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let context =
                "error enhancing profile from schematic: error getting official extensions";
            Answer::error(404, &format!("{context}: {}", text.trim_end()))
        })?;
    }
    let mut extensions = own.official_extensions.iter();
    if let Some(name) = extensions.find(|name| !catalog::is_extension(version, name)) {
        return refused(format!(
            "official extension {name:?} is not available for Talos version v{version}"
        ));
    }
    if let Some(overlay) = &schematic.overlay
        && is_available(version).is_ok()
        && !catalog::overlays(version).iter().any(|known| known.name == overlay.name)
    {
        let name = &overlay.name;
        return refused(format!(
            "official overlay {name:?} is not available for Talos version v{version}"
        ));
    }
    is_available(version)
}

fn is_available(version: &Version) -> Result<(), Answer> {
    if catalog::versions().contains(version) {
        return Ok(());
    }
    Err(Answer::error(404, &format!("version {version} is not available")))
}

/// With or without the `v` in front. What is no version at all the factory does not expect.
fn parse_version(text: &str) -> Result<Version, Answer> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).map_err(|_| Answer::internal())
}
