//! Ownership: which VMs and templates talmox created, and for which cluster.

mod adoption;
pub(crate) mod inventory_notes;
mod lost_marker;
mod marker;
mod owner;
pub(crate) mod smbios_uuid;
mod template_mark;
mod unfinished_vm;
mod unmarked_vm;

pub use adoption::Adoption;
pub use inventory_notes::rebased_description;
pub use marker::{ClusterMark, FirstRole, Marker, NoMarker, Stage};
pub use owner::{Identity, Owner};
pub use smbios_uuid::SmbiosUuid;
pub use template_mark::TemplateMark;
pub(crate) use template_mark::version_in_name;
pub use unfinished_vm::unfinished_vm_hint;
pub use unmarked_vm::UnmarkedSign;
