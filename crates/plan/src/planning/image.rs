//! Steps that download or upload images to storages.

use talmox_pve_types::id::{NodeName, VolumeId};
use talmox_values::url::shown_url;

use super::builder::Builder;
use crate::desired::{BootImage, ImageSource};
use crate::plan::{
    Action, Change, Class, FetchImage, FetchWay, FieldChange, Object, PostSchematic, StepId,
};
use crate::rights::may_download;

/// Plans the fetch of an image to a host. Returns the volume of the image, and the step to wait for.
pub(super) fn fetch(
    builder: &mut Builder<'_>,
    image: &BootImage,
    host: &NodeName,
) -> (VolumeId, StepId) {
    let storage = &builder.desired.image_storage;
    let volume = image.volume(storage);
    let host = fetching_host(builder, host);
    let contents = builder.observed.pve.contents.get(&(host.clone(), storage.clone()));
    let listed = contents.and_then(|listing| listing.as_ref().ok());
    let is_present = listed.is_some_and(|all| all.iter().any(|one| one.volid == volume));
    let id = format!("image/{host}/{storage}/{}", image.file);
    let step = StepId::new(id.clone());
    if builder.steps.has(&step) {
        tracing::info!(target: "talmox::plan", subject = id, "merged: the step is planned already");
        return (volume, step);
    }
    let mut ways = vec![FetchWay::Stream];
    if may_download(&builder.observed.pve.permissions, &host) {
        ways.insert(0, FetchWay::Download);
    }
    if !is_present {
        let fields =
            vec![FieldChange::set("from", shown_url(&image.url)), FieldChange::set("host", &host)];
        let object = Object::Image(volume.to_string());
        builder.changes.push(Change::planned(object, Class::Create, fields));
    }
    let after = schematic(builder, image);
    let action = Action::FetchImage(FetchImage {
        host,
        volume: volume.clone(),
        url: image.url.clone(),
        checksum: image.checksum.clone(),
        sums: image.sums(),
        ways,
        is_present,
        deadline: builder.desired.timeouts.image,
    });
    (volume, builder.steps.add(id, None, after, action))
}

/// The host that fetches the image. For a shared storage, it is the first host of the placed nodes that is online and has the
/// storage.
fn fetching_host(builder: &Builder<'_>, host: &NodeName) -> NodeName {
    let storage = &builder.desired.image_storage;
    let pve = &builder.observed.pve;
    if !pve.storage(host, storage).is_some_and(|seen| seen.shared) {
        return host.clone();
    }
    let nodes = builder.places.nodes.iter();
    let mut hosts = nodes
        .map(|placed| &placed.own.vm.node)
        .filter(|host| pve.is_online(host) && pve.storage(host, storage).is_some());
    hosts.next().unwrap_or(host).clone()
}

/// Plans the step that posts the schematic of the image to the factory. None if the image has no schematic to post.
pub(super) fn schematic(builder: &mut Builder<'_>, image: &BootImage) -> Option<StepId> {
    let ImageSource::Factory { factory, id, schematic: Some(yaml), .. } = &image.source else {
        return None;
    };
    let action = Action::PostSchematic(PostSchematic {
        factory: factory.clone(),
        id: id.clone(),
        yaml: yaml.clone(),
        deadline: builder.desired.timeouts.task,
    });
    Some(builder.steps.add(format!("schematic/{id}"), None, [], action))
}
