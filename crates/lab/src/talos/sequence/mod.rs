//! What moves a node from stage to stage, and what it tells of that.

mod apply;
mod boot;
mod extension;
mod meet;
mod status;
mod system;
mod ubuntu;

pub(super) use boot::play;
pub(crate) use meet::finds;
