//! Login to Proxmox.

/// Proxmox user, with an API token if the login uses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// User ID, such as `talmox@pve`.
    pub user: String,
    /// Name of the API token of the user. None if the login uses a password.
    pub token: Option<String>,
}

impl Login {
    /// Whether this login may pass PCI devices through by their addresses. Proxmox allows that only for root with a password.
    /// A token may not do so.
    pub fn is_root(&self) -> bool {
        self.user == "root@pam" && self.token.is_none()
    }

    /// The user id that Proxmox shows for a task of this login.
    pub fn id(&self) -> String {
        match &self.token {
            Some(token) => format!("{}!{token}", self.user),
            None => self.user.clone(),
        }
    }
}
