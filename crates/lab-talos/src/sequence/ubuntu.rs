//! Ubuntu cloud image as a guest. It reads its cidata volume, configures its address, and reports through the guest agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use talmox_lab_environment::Work;

use super::super::hardware::Hardware;
use super::super::network::{Network, NetworkInputs};
use super::super::platform::PlatformData;
use super::super::simulation::Simulation;
use crate::image::{Medium, Platform, TalosImage, UbuntuImage};

pub(super) async fn run_guest(
    simulation: &Arc<Simulation>,
    vmid: u32,
    hardware: &Hardware,
    image: &UbuntuImage,
    files: Option<&BTreeMap<String, Vec<u8>>>,
) {
    let object = format!("node/{vmid}");
    simulation.environment.wait(Work::Boot, &object).await;
    // cloud-init reads the cidata volume like the platform nocloud of Talos.
    let nocloud = TalosImage::new(
        image.release.clone(),
        Platform::Nocloud,
        talmox_talos_config::schematic::Schematic::default(),
        false,
        Medium::Disk,
    );
    let platform = PlatformData::find(&nocloud, hardware, &BTreeMap::new(), files);
    let network = Network::of(&NetworkInputs {
        hardware,
        platform: &platform,
        cached: &[],
        config: None,
        dhcp: simulation.settings.dhcp.as_ref(),
        fallback: "ubuntu",
    });
    let user_data = files.and_then(|files| files.get("user-data"));
    let user_data = user_data.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    // The image does not contain the guest agent. cloud-init installs it if the user data lists it.
    let installs_agent = user_data.is_some_and(|text| text.contains("qemu-guest-agent"));
    simulation.environment.wait(Work::Install, &object).await;
    if installs_agent && hardware.has_agent_channel {
        simulation.hypervisor.set_agent(vmid, network.agent_report());
    }
}
