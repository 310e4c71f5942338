//! Dispatch of an endpoint to the module that implements it.

use super::{access, cluster, node, not_implemented, pool, qemu, storage, version};
use crate::call::{Call, Outcome, Upload};
use crate::schema::Endpoint;

/// Answers a call after authentication and permission checks. `upload` is set only for calls that upload a file.
pub(crate) async fn answer(
    endpoint: &'static Endpoint,
    call: Call,
    upload: Option<Upload>,
) -> Outcome {
    let mut parts = endpoint.path.split('/').skip(1);
    match (parts.next(), parts.nth(1)) {
        (Some("access"), _) => access::answer(endpoint, &call),
        (Some("cluster"), _) => cluster::answer(endpoint, &call),
        (Some("nodes"), Some("qemu")) => qemu::answer(endpoint, &call).await,
        (Some("storage"), _) | (Some("nodes"), Some("storage" | "query-url-metadata")) => {
            storage::answer(endpoint, call, upload).await
        }
        (Some("nodes"), _) => node::answer(endpoint, &call),
        (Some("pools"), _) => pool::answer(endpoint, &call),
        (Some("version"), _) => version::of_cluster(&call),
        _ => not_implemented(endpoint),
    }
}
