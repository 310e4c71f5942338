//! Calls about the user of the API: permissions and login.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use talmox_values::SecretText;

use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable, flag};

/// Permissions of the caller: for every path the privileges, and for each privilege whether it propagates to the paths
/// below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Permissions(pub BTreeMap<String, BTreeMap<String, bool>>);

impl Permissions {
    /// Whether the caller has `privilege` on `path`, directly or inherited.
    ///
    /// The nearest entry decides, because an entry replaces the privileges that its path would inherit.
    pub fn allows(&self, path: &str, privilege: &str) -> bool {
        let mut at = path;
        loop {
            if let Some(privileges) = self.0.get(at) {
                let passes_on = privileges.get(privilege);
                return passes_on.is_some_and(|passes_on| *passes_on || at == path);
            }
            if at == "/" {
                return false;
            }
            let cut = at.rfind('/').unwrap_or_default();
            at = if cut == 0 { "/" } else { &at[..cut] };
        }
    }
}

impl Decode for Permissions {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        if data.is_null() {
            return Ok(Self::default());
        }
        let privileges = |(path, value): (&String, &Value)| {
            let fields = Fields::of(value)?;
            let passes_on =
                |(name, value): (&String, &Value)| (name.clone(), flag(value).unwrap_or_default());
            Ok((path.clone(), fields.iter().map(passes_on).collect()))
        };
        Fields::of(data)?.iter().map(privileges).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads the permissions of the caller.
pub fn permissions() -> Request<Permissions> {
    Request::get(&[&"access", &"permissions"])
}

/// Answer to a login.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub ticket: SecretText,
    pub csrf: SecretText,
}

impl Decode for Ticket {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let ticket = fields.need_text("ticket")?;
        if ticket.starts_with("PVE:!tfa!") {
            let text = "this user requires a second factor, which talmox does not support: use an API token";
            return Err(Unreadable(text.to_owned()));
        }
        let csrf = fields.need_text("CSRFPreventionToken")?;
        Ok(Self { ticket: SecretText::new(ticket), csrf: SecretText::new(csrf) })
    }
}

/// Logs in. A valid ticket can be used as the password.
pub fn login(username: &str, password: &SecretText) -> Request<Ticket> {
    Request::post(&[&"access", &"ticket"])
        .with("username", username)
        .with("password", password.expose())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_entry_decides() {
        let data = json!({
            "/": {"Sys.Audit": 1, "VM.Audit": "1"},
            "/vms": {"VM.Audit": 0},
            "/storage/local": {"Datastore.Audit": 0},
        });
        let permissions = Permissions::decode(&data).unwrap();
        assert!(permissions.allows("/nodes/pve1", "Sys.Audit"));
        assert!(permissions.allows("/", "VM.Audit"));
        assert!(permissions.allows("/vms", "VM.Audit"));
        assert!(!permissions.allows("/vms/300", "VM.Audit"), "the privilege does not propagate");
        assert!(!permissions.allows("/vms/300", "Sys.Audit"), "replaced by the entry on /vms");
        assert!(permissions.allows("/storage/local", "Datastore.Audit"));
        assert!(!permissions.allows("/storage/other", "Datastore.Audit"));
        assert!(!Permissions::default().allows("/", "x"));
    }

    #[test]
    fn an_incomplete_ticket_is_an_error() {
        let half = json!({"ticket": "PVE:!tfa!x", "CSRFPreventionToken": "y"});
        assert!(Ticket::decode(&half).is_err());
        let shown = format!("{:?}", login("root@pam", &SecretText::new("hunter2")));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
