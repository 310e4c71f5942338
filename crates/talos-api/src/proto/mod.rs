//! Messages and services of the Talos API, generated from the `.proto` files of this crate by `cargo xtask generate`.
//! The modules have the names of the packages.
//!
//! Messages that may contain keys have a `Debug` that hides them.

mod redact;

#[expect(clippy::pedantic, reason = "generated")]
pub mod common {
    include!("generated/common.rs");
}

#[expect(clippy::pedantic, reason = "generated")]
#[cfg_attr(feature = "server", expect(clippy::allow_attributes, reason = "generated"))]
pub mod machine {
    include!("generated/machine.rs");
}

#[expect(clippy::pedantic, reason = "generated")]
#[cfg_attr(feature = "server", expect(clippy::allow_attributes, reason = "generated"))]
pub mod cluster {
    include!("generated/cluster.rs");
}

#[expect(clippy::pedantic, reason = "generated")]
#[cfg_attr(feature = "server", expect(clippy::allow_attributes, reason = "generated"))]
pub mod storage {
    include!("generated/storage.rs");
}

pub mod cosi {
    #[expect(clippy::pedantic, reason = "generated")]
    #[cfg_attr(feature = "server", expect(clippy::allow_attributes, reason = "generated"))]
    pub mod resource {
        include!("generated/cosi.resource.rs");
    }
}
