//! Identity of a machine: its hardware and its first-boot drive.

use crate::client::{Client, ResourceKind};
use crate::error::TalosError;

pub use talmox_talos_config::machine::Expected;

/// Identity that a machine reports to any client. A comparison of identities detects mix-ups, but not attackers,
/// because an attacker can report the same identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// UUID in the SMBIOS of the machine, as reported.
    pub uuid: Option<String>,
    pub serial: Option<String>,
    /// MAC addresses of the network cards, in lower case.
    pub macs: Vec<String>,
    /// Instance ID on the drive that configured the machine at its first boot.
    pub instance_id: Option<String>,
    pub hostname: Option<String>,
}

impl Machine {
    /// Reads the identity of a node, in maintenance mode or configured.
    pub async fn read(client: &Client) -> Result<Self, TalosError> {
        let system = client.get(ResourceKind::SYSTEM_INFORMATION, "systeminformation").await?;
        let platform = client.get(ResourceKind::PLATFORM_METADATA, "platformmetadata").await?;
        let links = client.list(ResourceKind::LINK_STATUS).await?;
        let text = |resource: &Option<crate::client::Resource>, path: &str| {
            resource.as_ref()?.text(path).filter(|text| !text.is_empty())
        };
        let macs = links.iter().filter_map(|link| {
            // Dummies, bonds and bridges have a `kind`. The loopback device has another `type`.
            let is_card = link.text("type").as_deref() == Some("ether")
                && link.text("kind").unwrap_or_default().is_empty();
            let mac = ["permanentAddr", "hardwareAddr"]
                .into_iter()
                .find_map(|field| link.text(field).filter(|mac| !mac.is_empty()));
            mac.filter(|_| is_card).map(|mac| mac.to_lowercase())
        });
        Ok(Self {
            uuid: text(&system, "uuid"),
            serial: text(&system, "serialnumber"),
            macs: macs.collect(),
            instance_id: text(&platform, "instanceId"),
            hostname: text(&platform, "hostname"),
        })
    }

    /// Difference between this machine and the expected machine, if any.
    pub fn mismatch(&self, expected: &Expected) -> Option<String> {
        let same = |wanted: &Option<String>, found: &Option<String>, what: &str| {
            let wanted = wanted.as_deref()?;
            let found = found.as_deref().unwrap_or("none");
            let differs = !wanted.eq_ignore_ascii_case(found);
            differs.then(|| format!("its {what} is {found}, not {wanted}"))
        };
        same(&expected.uuid, &self.uuid, "SMBIOS UUID")
            .or_else(|| same(&expected.instance_id, &self.instance_id, "instance id"))
            .or_else(|| {
                let is_there =
                    |mac: &String| self.macs.iter().any(|known| known.eq_ignore_ascii_case(mac));
                let missing = expected.macs.iter().find(|mac| !is_there(mac))?;
                Some(format!("it has no network card {}", missing.to_lowercase()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expected_property_of_a_machine_is_compared() {
        let machine = Machine {
            uuid: Some("4c4c4544-0042-3510-8051-b4c04f333732".to_owned()),
            macs: vec!["bc:24:11:00:00:01".to_owned()],
            instance_id: Some("abc".to_owned()),
            ..Machine::default()
        };
        let expected = Expected {
            uuid: Some("4C4C4544-0042-3510-8051-B4C04F333732".to_owned()),
            macs: vec!["BC:24:11:00:00:01".to_owned()],
            instance_id: None,
        };
        assert_eq!(machine.mismatch(&expected), None);
        let other = Expected { instance_id: Some("xyz".to_owned()), ..expected.clone() };
        assert_eq!(machine.mismatch(&other).unwrap(), "its instance id is abc, not xyz");
        let other = Expected { macs: vec!["BC:24:11:00:00:02".to_owned()], ..expected };
        assert_eq!(machine.mismatch(&other).unwrap(), "it has no network card bc:24:11:00:00:02");
        let other = Expected { uuid: Some("1".to_owned()), ..Expected::default() };
        assert_eq!(Machine::default().mismatch(&other).unwrap(), "its SMBIOS UUID is none, not 1");
    }
}
