//! Uploads with the config of a node that an earlier run left on a storage, for example a replacement that failed before the VM
//! was created. The VM of the node exists, so the upload is not needed any more.

use super::builder::Builder;
use super::placed::Placed;
use super::vm_creation::cidata_volume;
use crate::plan::{Action, Change, Class, FieldChange, Object, SCRUBBED, ScrubCidata};

/// Plans to overwrite the uploads of a node whose VM is finished. Without the right to delete files, an overwritten upload stays,
/// and is no difference.
pub(super) fn plan(builder: &mut Builder<'_>, placed: &Placed<'_>) {
    let node = placed.node;
    if node.vm.cidata.is_none() {
        return;
    }
    let volume = cidata_volume(builder, node);
    let pve = &builder.observed.pve;
    let left = pve.contents.iter().filter_map(|((host, storage), contents)| {
        let files = contents.as_ref().ok().filter(|_| storage == volume.storage())?;
        let mut own = files.iter().filter(|file| file.volid == volume);
        own.any(|file| file.size != Some(SCRUBBED as u64)).then(|| host.clone())
    });
    // All hosts of a shared storage list the same upload.
    let Some(host) = left.min() else { return };
    let path = format!("/storage/{}", volume.storage());
    let delete = pve.permissions.allows(&path, "Datastore.Allocate");
    let fields = vec![FieldChange::new("config upload", Some(volume.to_string()), None)];
    let change = Change::planned(Object::Vm(node.name.clone()), Class::Live, fields);
    builder.changes.push(change.note("an earlier run left it on the storage"));
    let deadline = builder.desired.timeouts.task;
    let scrub = Action::ScrubCidata(ScrubCidata { host, volume, delete, deadline });
    builder.steps.add(format!("vm/{}/scrub-config", node.name), Some(&node.name), [], scrub);
}
