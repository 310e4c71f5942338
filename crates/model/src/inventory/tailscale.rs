//! Tailscale and Headscale.

use crate::language::{List, Setting, mapping};
use crate::value::{Cidr, HttpUrl, SecretRef};

mapping! {
    /// Join the nodes to a Tailscale or Headscale network. Needs the extension siderolabs/tailscale.
    called "`tailscale`"
    pub struct Tailscale {
        /// The address of a Headscale. Default: Tailscale's own.
        login_server: Setting<HttpUrl>,
        /// The key that nodes join with.
        auth_key: Setting<SecretRef>,
        /// Networks that the nodes offer to the others.
        routes: List<Cidr>,
        /// Take routes that others offer.
        accept_routes: Setting<bool>,
        /// Further arguments for `tailscale up`.
        extra_args: List<String>,
    }
}
