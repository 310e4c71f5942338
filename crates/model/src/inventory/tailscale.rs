//! Tailscale and Headscale settings.

use crate::language::{List, Setting, mapping};
use crate::value::{Cidr, HttpUrl, SecretRef};

mapping! {
    /// Join the nodes to a Tailscale or Headscale network. Needs the extension siderolabs/tailscale.
    called "`tailscale`"
    pub struct Tailscale {
        /// URL of a Headscale server. Default: the server of Tailscale.
        login_server: Setting<HttpUrl>,
        /// Auth key of the nodes.
        auth_key: Setting<SecretRef>,
        /// Networks that the nodes advertise as subnet routes.
        routes: List<Cidr>,
        /// Accept subnet routes of other machines.
        accept_routes: Setting<bool>,
        /// Further arguments for `tailscale up`.
        extra_args: List<String>,
    }
}
