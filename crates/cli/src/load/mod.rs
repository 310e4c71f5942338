//! Loading and checking of an inventory.

mod newer_documents;
mod shared_secrets;

use std::path::Path;

use talmox_model::Inventory;
use talmox_model::load::Parsed;

use crate::error::CommandError;
use crate::locate::{Located, locate};

/// Reads and checks an inventory and the files that it names.
pub(crate) fn load(path: Option<&Path>, clusters: &[String]) -> Result<Inventory, CommandError> {
    Ok(load_located(locate(path, clusters, &[])?))
}

/// Checks an inventory whose files were located before.
pub(crate) fn load_located(located: Located) -> Inventory {
    let shared = shared_secrets::shared_secrets(&located.clusters);
    let boundary = located.boundary;
    let parsed = Parsed::new(located.clusters).with_outside(|path| boundary.is_outside(path));
    let mut inventory = parsed.check_with(|path, kind| boundary.content(path, kind));
    inventory.diagnostics.extend(shared);
    newer_documents::refuse_newer_documents(&mut inventory, &boundary);
    inventory
}
