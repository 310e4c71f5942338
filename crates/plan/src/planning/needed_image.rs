//! Images that a plan needs.

use std::collections::BTreeSet;

use talmox_pve_types::api::cluster::Guest;

use super::placed::VmPresence;
use super::placement::places;
use crate::desired::{BootImage, Desired};
use crate::observed::Pve;

/// The images of the VMs that a plan creates. For a VM that is cloned from a missing template, the image of the template.
pub fn needed_images<'a>(desired: &'a Desired, pve: &Pve) -> Vec<&'a BootImage> {
    let has_template = |name: &str| {
        let is_it = |guest: &Guest| {
            guest.template
                && (guest.name.as_deref() == Some(name) || guest.vmid.to_string() == name)
        };
        pve.resources.guests.iter().any(is_it)
    };
    let places = places(desired, pve).nodes;
    let absent = places.iter().filter(|placed| matches!(placed.state, VmPresence::Absent));
    let names: BTreeSet<&str> = absent.map(|placed| placed.node.name.as_str()).collect();
    let nodes = desired.nodes.iter().filter(|node| names.contains(node.name.as_str()));
    nodes
        .filter_map(|node| match (&node.image, &node.template) {
            (Some(image), _) => Some(image),
            (None, Some(template)) if !has_template(template) => node.template_image.as_ref(),
            (None, _) => None,
        })
        .collect()
}
