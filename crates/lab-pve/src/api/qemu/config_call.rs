//! Internal calls that Proxmox makes to its own API.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ApiError;
use crate::call::Call;
use crate::pve_state::Caller;
use crate::schema::{self, Method, Raw};
use crate::site::Site;

/// Builds a call that changes the config of a VM, on behalf of the original caller.
pub(super) fn update_call(
    site: &Arc<Site>,
    caller: &Caller,
    node: &str,
    vmid: u32,
    options: &[(&str, String)],
) -> Result<Call, ApiError> {
    let release = site.pve_state().release;
    let path = format!("/nodes/{node}/qemu/{vmid}/config");
    let (endpoint, in_path) = schema::find(release, Method::Put, &path)
        .ok_or_else(|| ApiError::failed(format!("no handler for '{path}'")))?;
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let raw: BTreeMap<String, Raw> =
        in_path.into_iter().chain(options).map(|(name, value)| (name, Raw::Text(value))).collect();
    Ok(Call {
        site: Arc::clone(site),
        caller: caller.clone(),
        node: node.to_owned(),
        params: schema::verify(endpoint, &raw)?,
        release,
    })
}
