//! PCI mappings. A caller with an API token can pass a device through to a VM only with a mapping.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ConfigId, Digest, NodeName};
use crate::property::Properties;
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// Name for a device. The device may have a different address on every host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciMapping {
    pub id: ConfigId,
    pub mapped: Mapped,
}

/// Devices of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    pub devices: Vec<MappedDevice>,
    pub description: Option<String>,
    pub mediated: bool,
    pub live_migration_capable: bool,
    pub digest: Option<Digest>,
    /// Problems that the node given to [`list`] reports for this mapping.
    pub problems: Vec<String>,
}

/// Address of the device on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedDevice {
    pub node: NodeName,
    /// PCI address such as `0000:01:00.0`, or several functions separated by `;`.
    pub path: String,
    /// Vendor ID and device ID, such as `10de:2204`.
    pub id: String,
    pub iommu_group: Option<u32>,
    pub subsystem_id: Option<String>,
}

impl fmt::Display for MappedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, path, id, .. } = self;
        write!(f, "node={node},path={path},id={id}")?;
        if let Some(group) = self.iommu_group {
            write!(f, ",iommugroup={group}")?;
        }
        match &self.subsystem_id {
            Some(subsystem) => write!(f, ",subsystem-id={subsystem}"),
            None => Ok(()),
        }
    }
}

impl MappedDevice {
    fn parse(text: &str) -> Result<Self, Unreadable> {
        let properties = Properties::parse(text, None);
        let get = |key: &str| {
            let text = properties.get(key).map(str::to_owned);
            text.ok_or_else(|| Unreadable(format!("`{key}` is missing in a mapping")))
        };
        Ok(Self {
            node: get("node")?.parse()?,
            path: get("path")?,
            id: get("id")?,
            iommu_group: properties.get("iommugroup").and_then(|text| text.parse().ok()),
            subsystem_id: properties.get("subsystem-id").map(str::to_owned),
        })
    }
}

impl Decode for PciMapping {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        Ok(Self { id: Fields::of(data)?.need("id")?, mapped: Mapped::decode(data)? })
    }
}

impl Decode for Mapped {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let map = fields.value("map").and_then(Value::as_array);
        let texts = map.into_iter().flatten().filter_map(Value::as_str);
        let problem = |check: Fields<'_>| check.text("message");
        Ok(Self {
            devices: texts.map(MappedDevice::parse).collect::<Result<_, _>>()?,
            description: fields.text("description"),
            mediated: fields.flag("mdev"),
            live_migration_capable: fields.flag("live-migration-capable"),
            digest: fields.id("digest")?,
            problems: fields.objects("checks").filter_map(problem).collect(),
        })
    }
}

/// Lists the mappings that the caller may use or see. With `check_node`, the answer includes the problems on that node.
pub fn list(check_node: Option<&NodeName>) -> Request<Vec<PciMapping>> {
    Request::get(&[&"cluster", &"mapping", &"pci"]).with_some("check-node", check_node)
}

pub fn get(id: &ConfigId) -> Request<Mapped> {
    Request::get(&[&"cluster", &"mapping", &"pci", id])
}

pub fn create(id: &ConfigId, mapped: &Mapped) -> Request<()> {
    with_mapped(Request::post(&[&"cluster", &"mapping", &"pci"]).with("id", id), mapped)
}

/// Updates a mapping. The update fails if another client changed the mapping since its digest was read.
pub fn update(id: &ConfigId, mapped: &Mapped) -> Request<()> {
    let request = with_mapped(Request::put(&[&"cluster", &"mapping", &"pci", id]), mapped);
    request.with_some("digest", mapped.digest.as_ref())
}

fn with_mapped(mut request: Request<()>, mapped: &Mapped) -> Request<()> {
    for device in &mapped.devices {
        request = request.with("map", device);
    }
    request
        .with_some("description", mapped.description.as_ref())
        .with_flag("mdev", mapped.mediated)
        .with_flag("live-migration-capable", mapped.live_migration_capable)
}

pub fn delete(id: &ConfigId) -> Request<()> {
    Request::delete(&[&"cluster", &"mapping", &"pci", id])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mapping_round_trips() {
        let data = json!({
            "id": "gpu", "digest": "ab", "mdev": 0,
            "map": ["node=pve1,path=0000:01:00.0,id=10de:2204,iommugroup=1", "id=10de:2204,node=pve2,path=0000:02:00"],
            "checks": [{"severity": "warning", "message": "the id has changed"}],
        });
        let mapping = PciMapping::decode(&data).unwrap();
        assert_eq!(mapping.mapped.problems, ["the id has changed"]);
        assert_eq!(
            update(&mapping.id, &mapping.mapped).body().unwrap(),
            "map=node%3Dpve1%2Cpath%3D0000%3A01%3A00.0%2Cid%3D10de%3A2204%2Ciommugroup%3D1\
             &map=node%3Dpve2%2Cpath%3D0000%3A02%3A00%2Cid%3D10de%3A2204&digest=ab"
        );
        let node = "pve1".parse().unwrap();
        assert_eq!(list(Some(&node)).target(), "/api2/json/cluster/mapping/pci?check-node=pve1");
    }
}
