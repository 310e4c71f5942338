//! The Talos API of a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use talmox_talos_api::server::Services;

use super::realm::Realm;

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) realm: Arc<Realm>,
    pub(crate) vmid: u32,
    pub(crate) boot: u64,
    pub(crate) caller: Caller,
}

/// Who speaks.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Anonymous,
    Roles(BTreeSet<String>),
}

pub(crate) fn services(_: Session) -> Services {
    Services::builder().build()
}
