//! The messages and services of the Talos API that we use, made from our own `.proto` files by
//! `cargo xtask generate`. The modules bear the names of the packages.
//!
//! What may hold keys has a `Debug` that shows none of them.

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
