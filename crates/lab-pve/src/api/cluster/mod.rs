//! `/cluster`: cluster-wide resources, options, HA, SDN and mappings.

mod ha;
mod ha_group;
mod ha_rule;
mod mapping;
mod option;
mod resource;
mod sdn;
mod status;
#[cfg(test)]
mod tests;

pub(super) use resource::{load, node_entry, root_disk, storage_entry, vm_entry};

use super::{index, not_implemented};
use crate::call::{Call, Outcome};
use crate::schema::{Endpoint, Method};

pub(super) fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Delete, Get, Post, Put};
    match endpoint.id() {
        (Get, "/cluster") => status::index(call),
        (Get, "/cluster/status") => status::read(call),
        (Get, "/cluster/nextid") => status::next_id(call),
        (Get, "/cluster/tasks") => status::tasks(call),
        (Get, "/cluster/resources") => resource::list(call),
        (Get, "/cluster/sdn/vnets") => sdn::vnets(call),
        (Get, "/cluster/sdn/zones") => sdn::zones(call),
        (Get, "/cluster/options") => option::read(call),
        (Put, "/cluster/options") => option::update(call),
        (Get, "/cluster/mapping") => index::of("name", &["dir", "pci", "usb"]),
        (Get, "/cluster/mapping/pci") => mapping::list(call),
        (Post, "/cluster/mapping/pci") => mapping::create(call),
        (Get, "/cluster/mapping/pci/{id}") => mapping::read(call),
        (Put, "/cluster/mapping/pci/{id}") => mapping::update(call),
        (Delete, "/cluster/mapping/pci/{id}") => mapping::delete(call),
        (Get, "/cluster/ha") => ha::index(call),
        (Get, "/cluster/ha/resources") => ha::list(call),
        (Post, "/cluster/ha/resources") => ha::create(call),
        (Get, "/cluster/ha/resources/{sid}") => ha::read(call),
        (Put, "/cluster/ha/resources/{sid}") => ha::update(call),
        (Delete, "/cluster/ha/resources/{sid}") => ha::delete(call),
        (Post, "/cluster/ha/resources/{sid}/migrate") => ha::migrate(call, true),
        (Post, "/cluster/ha/resources/{sid}/relocate") => ha::migrate(call, false),
        (Get, "/cluster/ha/groups") => ha_group::list(call),
        (Post, "/cluster/ha/groups") => ha_group::create(call),
        (Get, "/cluster/ha/groups/{group}") => ha_group::read(call),
        (Put, "/cluster/ha/groups/{group}") => ha_group::update(call),
        (Delete, "/cluster/ha/groups/{group}") => ha_group::delete(call),
        (Get, "/cluster/ha/rules") => ha_rule::list(call),
        (Post, "/cluster/ha/rules") => ha_rule::create(call),
        (Get, "/cluster/ha/rules/{rule}") => ha_rule::read(call),
        (Put, "/cluster/ha/rules/{rule}") => ha_rule::update(call),
        (Delete, "/cluster/ha/rules/{rule}") => ha_rule::delete(call),
        (Get, "/cluster/ha/status") => ha::status_index(call),
        (Get, "/cluster/ha/status/current") => ha::current(call),
        _ => not_implemented(endpoint),
    }
}
