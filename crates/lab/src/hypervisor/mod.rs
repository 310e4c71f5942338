//! Adapter that makes the simulated Proxmox the hypervisor of the simulated nodes.

mod disk;
mod hardware;

use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Deserialize as _;
use serde_json::Value as Json;
use talmox_lab_environment::fault::Action;
use talmox_lab_pve::pve_state::{Agent, PveState, Volume, VolumeId};
use talmox_lab_pve::{GuestEvent, GuestEventKind, Site};
use talmox_lab_talos::{
    AgentReport, DiskContent, DiskKey, Hardware, Hypervisor, PowerEvent, PowerEvents, RunningState,
    Written,
};
use tokio::sync::mpsc::UnboundedReceiver;

#[derive(Debug)]
pub(crate) struct PveHypervisor(pub(crate) Arc<Site>);

struct PveEvents(UnboundedReceiver<GuestEvent>);

impl PowerEvents for PveEvents {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(u32, PowerEvent)>> {
        let next = self.0.poll_recv(context);
        next.map(|event| event.map(|event| (event.vmid, power_event(event.kind))))
    }
}

fn power_event(kind: GuestEventKind) -> PowerEvent {
    match kind {
        GuestEventKind::Started => PowerEvent::Started,
        GuestEventKind::Reset => PowerEvent::Reset,
        GuestEventKind::PowerButton => PowerEvent::PowerButton,
        GuestEventKind::Paused | GuestEventKind::Resumed | GuestEventKind::Replugged => {
            PowerEvent::Changed
        }
        GuestEventKind::Stopped => PowerEvent::Stopped,
    }
}

impl Hypervisor for PveHypervisor {
    fn watch(&self) -> Box<dyn PowerEvents> {
        Box::new(PveEvents(self.0.guests.watch()))
    }

    fn running(&self) -> Vec<u32> {
        let pve_state = self.0.pve_state();
        pve_state.vms.iter().filter(|(_, vm)| vm.is_running()).map(|(vmid, _)| *vmid).collect()
    }

    fn find_running(&self, name: &str) -> Option<u32> {
        let pve_state = self.0.pve_state();
        let mut running =
            pve_state.vms.iter().filter_map(|(vmid, vm)| Some((*vmid, vm.run.as_ref()?)));
        let found = running.find(|(vmid, run)| {
            vmid.to_string() == name || run.config.get("name").is_some_and(|own| own == name)
        });
        found.map(|(vmid, _)| vmid)
    }

    fn hardware(&self, vmid: u32) -> Option<Hardware> {
        hardware::of(&self.0, vmid)
    }

    fn running_state(&self, vmid: u32) -> Option<RunningState> {
        let pve_state = self.0.pve_state();
        let vm = pve_state.vms.get(&vmid)?;
        let is_paused = vm.run.as_ref()?.paused;
        Some(RunningState { is_paused, cards: hardware::cards(pve_state.release, &vm.config) })
    }

    fn attach(&self, vmid: u32) {
        self.0.guests.attach_simulator(vmid);
    }

    fn detach(&self, vmid: u32) {
        self.0.guests.detach_simulator(vmid);
    }

    fn power_off(&self, vmid: u32) {
        self.0.guest_power_off(vmid);
    }

    fn reset(&self, vmid: u32) {
        self.0.guest_reset(vmid);
    }

    fn forget_agent(&self, vmid: u32) {
        self.0.forget_agent(vmid);
    }

    fn set_agent(&self, vmid: u32, report: AgentReport) {
        self.0.set_agent(vmid, agent(report));
    }

    fn renew_agent(&self, vmid: u32, report: AgentReport) {
        self.0.renew_agent(vmid, agent(report));
    }

    fn disk(&self, disk: &DiskKey) -> Option<DiskContent> {
        let pve_state = self.0.pve_state();
        let volume = volume(&pve_state, &disk.host, &VolumeId::parse(&disk.volume)?)?;
        let image = volume.blob.as_ref().map(|blob| self.0.blobs.path(blob));
        Some(DiskContent { image, written: written(volume.written.as_ref()) })
    }

    fn change_disk(&self, disk: &DiskKey, change: &mut dyn FnMut(&mut Written)) {
        let Some(id) = VolumeId::parse(&disk.volume) else { return };
        let mut pve_state = self.0.pve_state();
        let storage = pve_state.storages.get_mut(&id.storage);
        if let Some(volume) = storage.and_then(|storage| storage.volume_mut(&disk.host, &id.name)) {
            let mut own = written(volume.written.as_ref());
            change(&mut own);
            let own = serde_json::to_value(own);
            volume.written = Some(own.expect("invariant: what is written has a JSON form"));
        }
    }

    fn carry_out(&self, action: &Action) {
        self.0.apply_fault(action);
    }
}

fn volume<'w>(pve_state: &'w PveState, host: &str, id: &VolumeId) -> Option<&'w Volume> {
    pve_state.storages.get(&id.storage)?.volume(host, &id.name)
}

/// Data that a guest wrote to a volume. Parsing cannot fail here, because the saved data of a lab is checked when the lab
/// starts.
fn written(value: Option<&Json>) -> Written {
    value.and_then(|value| Written::deserialize(value).ok()).unwrap_or_default()
}

fn agent(report: AgentReport) -> Agent {
    let AgentReport { hostname, interfaces } = report;
    Agent { interfaces, hostname }
}
