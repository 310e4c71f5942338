//! From an endpoint to the module that answers it.

use super::{not_implemented, qemu, version};
use crate::pve::call::{Call, Outcome, Upload};
use crate::pve::schema::Endpoint;

/// Answers a call that passed the gates. Only uploads come with a file.
pub(crate) async fn answer(
    endpoint: &'static Endpoint,
    call: Call,
    _upload: Option<Upload>,
) -> Outcome {
    let mut parts = endpoint.path.split('/').skip(1);
    match (parts.next(), parts.nth(1)) {
        (Some("nodes"), Some("qemu")) => qemu::answer(endpoint, &call).await,
        (Some("version"), _) => version::of_cluster(&call),
        _ => not_implemented(endpoint),
    }
}
