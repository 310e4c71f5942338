//! Cleanup of the image storages by `destroy`: uploads with configs of nodes, and images of the cluster. Files that are kept
//! are reported with the reason.

use std::collections::BTreeSet;

use talmox_pve_types::api::storage::Volume;
use talmox_pve_types::id::{FileName, NodeName, VmId, VolumeId};

use super::vm_creation::is_upload_of;
use crate::desired::{Desired, is_image_name};
use crate::observed::Observed;
use crate::plan::{
    Action, Change, Class, DeleteImage, FieldChange, Finding, FindingCode, Object, Plan, SCRUBBED,
    ScrubCidata, StepGraph, StepId,
};

pub(super) struct StorageCleanup<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) plan: &'a mut Plan,
    pub(super) steps: &'a mut StepGraph,
    /// The steps that destroy the VMs.
    pub(super) after: Vec<StepId>,
}

impl StorageCleanup<'_> {
    /// Plans the deletion of uploads with configs. The name of such an upload contains the mark of the cluster.
    pub(super) fn uploads(&mut self) {
        for (host, volume) in self.volumes() {
            let file = volume.volid.file_name();
            if !is_upload_of(self.desired, file) {
                continue;
            }
            let delete = self.may_delete();
            if !delete && volume.size == Some(SCRUBBED as u64) {
                let why = "it contains only zeros, and the token may not delete it";
                self.stays(&host, &volume.volid, why, "delete it in Proxmox");
                continue;
            }
            let note = if delete {
                "the config of a node"
            } else {
                "the config of a node: overwritten with zeros, because the token may not delete it"
            };
            let action = Action::ScrubCidata(ScrubCidata {
                host: host.clone(),
                volume: volume.volid.clone(),
                delete,
                deadline: self.desired.timeouts.task,
            });
            self.goes(&host, &volume.volid, "scrub", note, action);
        }
    }

    /// Plans the deletion of the images of this inventory. An image that another cluster may use is kept, because the names
    /// of images depend only on their contents.
    pub(super) fn images(&mut self) {
        for (place, listing) in &self.observed.images.contents {
            if let Err(reason) = listing {
                let subject = format!("{}/{}", place.0, place.1);
                let message = format!(
                    "images there are kept, because the storage cannot be listed: {reason}"
                );
                self.plan.findings.push(
                    Finding::warning(FindingCode::StorageUnreadable, &subject, message)
                        .hint("grant Datastore.Audit on it to the token"),
                );
            }
        }
        let nodes = self.desired.nodes.iter();
        let images = nodes.flat_map(|node| node.image.iter().chain(&node.template_image));
        let own: BTreeSet<&FileName> = images.map(|image| &image.file).collect();
        for (host, volume) in self.volumes() {
            let file = volume.volid.file_name();
            if !own.iter().any(|name| name.as_str() == file) {
                if is_image_name(file) {
                    let why = "this inventory does not use it, but another one may";
                    self.stays(
                        &host,
                        &volume.volid,
                        why,
                        "delete it in Proxmox if nothing uses it",
                    );
                }
                continue;
            }
            if let Some((why, hint)) = self.needed(&host, &volume.volid) {
                self.stays(&host, &volume.volid, &why, &hint);
                continue;
            }
            let action = Action::DeleteImage(DeleteImage {
                host: host.clone(),
                volume: volume.volid.clone(),
                deadline: self.desired.timeouts.task,
            });
            self.goes(&host, &volume.volid, "delete", "no VM is known to use it", action);
        }
    }

    fn volumes(&self) -> Vec<(NodeName, Volume)> {
        let places = self.observed.images.contents.iter();
        let all = places.flat_map(|((host, _), listing)| {
            listing.iter().flatten().map(|volume| (host.clone(), volume.clone()))
        });
        all.collect()
    }

    /// Why talmox must not delete an image, and a hint for the user. None if the image can be deleted.
    fn needed(&self, host: &NodeName, volume: &VolumeId) -> Option<(String, String)> {
        let images = &self.observed.images;
        let pve = &self.observed.pve;
        if let Some(vmid) = images.used.get(volume) {
            return Some((format!("VM {vmid} uses it"), "detach it from that VM first".to_owned()));
        }
        let is_shared = pve.storage(host, volume.storage()).is_some_and(|seen| seen.shared);
        let reads = |(busy, _): &(&NodeName, &String)| is_shared || *busy == host;
        if let Some((_, what)) = images.busy.iter().find(reads) {
            let hint = "run the same command when that task has ended".to_owned();
            return Some((format!("a task may be reading it: {what}"), hint));
        }
        let reaches = |(other, _): &(&NodeName, &VmId)| is_shared || *other == host;
        if let Some((_, vmid)) = images.others.iter().find(reaches) {
            let why = format!("VM {vmid} belongs to another cluster, which may use the image too");
            return Some((why, "delete it in Proxmox if nothing uses it".to_owned()));
        }
        let storage = volume.storage();
        (!self.may_delete()).then(|| {
            let why = format!("the token lacks Datastore.Allocate on /storage/{storage}");
            let hint = "delete the image in Proxmox; the right would let the token delete everything there";
            (why, hint.to_owned())
        })
    }

    fn may_delete(&self) -> bool {
        let path = format!("/storage/{}", self.desired.image_storage);
        self.observed.pve.permissions.allows(&path, "Datastore.Allocate")
    }

    fn stays(&mut self, host: &NodeName, volume: &VolumeId, why: &str, hint: &str) {
        let message = format!("{volume} is kept: {why}");
        self.plan
            .findings
            .push(Finding::warning(FindingCode::ImageKept, host.as_str(), message).hint(hint));
    }

    fn goes(&mut self, host: &NodeName, volume: &VolumeId, verb: &str, note: &str, action: Action) {
        let fields = vec![FieldChange::new("host", Some(host.to_string()), None)];
        let object = Object::Image(volume.to_string());
        let change = Change::planned(object, Class::Destroy, fields);
        self.plan.changes.push(change.note(note));
        let id = format!("image/{host}/{}/{}/{verb}", volume.storage(), volume.file_name());
        self.steps.add(id, None, self.after.clone(), action);
    }
}
