//! Image Factory schematics: the description of the content of an image, and its ID.
//!
//! The ID is the SHA-256 of the canonical YAML, so it depends on the order of fields and lists. Lists keep their order.
//! [`Schematic::with_extensions`] sorts the extensions, so that the same set of extensions always has the same ID.

use aws_lc_rs::digest;
use talmox_yaml::{Entry, Map, Node, ReadError, Seq, Value, key_order};

use crate::format::text as string;
use crate::meta::MetaValue;
use crate::sops::normal_scalar;
use crate::tree::{list, map_of, texts};

/// Request to the Image Factory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schematic {
    /// Owner. Only the enterprise edition of the factory uses it.
    pub owner: String,
    pub overlay: Option<Overlay>,
    pub customization: Customization,
}

/// Board-specific addition to the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    pub image: String,
    pub name: String,
    /// Options of the overlay. If they are present, they are a mapping.
    pub options: Option<Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Customization {
    /// Embedded machine config, for Talos 1.12 and later. It must not contain secrets, because any person with the ID
    /// can read it.
    pub embedded_machine_configuration: String,
    pub extra_kernel_args: Vec<String>,
    pub meta: Vec<MetaValue>,
    pub official_extensions: Vec<String>,
    pub bootloader: Bootloader,
    pub secureboot: SecureBoot,
    /// Sector size in bytes. 0 means the default of the factory.
    pub disk_sector_size: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bootloader {
    /// Default boot loader of the Talos version.
    #[default]
    Default,
    DualBoot,
    SdBoot,
    Grub,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecureBoot {
    /// `off`, `manual`, `if-safe` or `force`. An empty text means the default.
    pub enroll_keys: String,
    pub include_well_known_certificates: bool,
}

/// Reason why a text is not a schematic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchematicError {
    #[error("the schematic is not YAML")]
    Yaml(#[source] ReadError),
    #[error("`{0}` in the schematic is unknown")]
    Unknown(String),
    #[error("`{0}` is set twice in the schematic")]
    Twice(String),
    #[error("`{path}` in the schematic must be {wanted}")]
    Wrong { path: String, wanted: &'static str },
}

impl Schematic {
    /// Adds extensions. The extensions are sorted and have no duplicates.
    #[must_use]
    pub fn with_extensions<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        let extensions = &mut self.customization.official_extensions;
        extensions.extend(names.into_iter().map(Into::into));
        extensions.sort();
        extensions.dedup();
        self
    }

    /// Parses YAML or JSON. Returns an error if the factory would reject the schematic.
    pub fn read(text: &str) -> Result<Self, SchematicError> {
        let documents = talmox_yaml::read(text).map_err(SchematicError::Yaml)?;
        match documents.first() {
            None => Ok(Self::default()),
            Some(node) => Self::from_node(node),
        }
    }

    pub fn from_node(node: &Node) -> Result<Self, SchematicError> {
        let mut schematic = Self::default();
        for (key, value, path) in fields(node, "")? {
            match key {
                "owner" => schematic.owner = read_text(value, &path)?,
                "overlay" => schematic.overlay = read_overlay(value, &path)?,
                "customization" => {
                    schematic.customization = read_customization(value, &path)?;
                }
                _ => return Err(SchematicError::Unknown(path)),
            }
        }
        Ok(schematic)
    }

    /// Canonical YAML. The factory accepts it too.
    pub fn to_yaml(&self) -> String {
        let mut fields = vec![];
        push_text(&mut fields, "owner", &self.owner);
        if let Some(overlay) = &self.overlay {
            let mut own = vec![("image", string(&overlay.image)), ("name", string(&overlay.name))];
            own.extend(overlay.options.clone().map(|options| ("options", options)));
            fields.push(("overlay", map_of(own)));
        }
        fields.push(("customization", self.customization.to_node()));
        talmox_yaml::emit(&map_of(fields), 4)
    }

    /// ID of this schematic in the factory.
    pub fn id(&self) -> String {
        let digest = digest::digest(&digest::SHA256, self.to_yaml().as_bytes());
        digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl Bootloader {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Default, "none"),
        (Self::DualBoot, "dual-boot"),
        (Self::SdBoot, "sd-boot"),
        (Self::Grub, "grub"),
    ];

    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(kind, _)| *kind == self);
        found.map_or("none", |(_, name)| name)
    }
}

impl Customization {
    fn to_node(&self) -> Node {
        let mut fields = vec![];
        push_text(
            &mut fields,
            "embeddedMachineConfiguration",
            &self.embedded_machine_configuration,
        );
        if !self.extra_kernel_args.is_empty() {
            fields.push(("extraKernelArgs", texts(&self.extra_kernel_args)));
        }
        if !self.meta.is_empty() {
            let value = |meta: &MetaValue| {
                map_of([
                    ("key", Node::plain(meta.key.0.to_string())),
                    ("value", string(&meta.value)),
                ])
            };
            fields.push(("meta", list(self.meta.iter().map(value))));
        }
        if !self.official_extensions.is_empty() {
            let names = texts(&self.official_extensions);
            fields.push(("systemExtensions", map_of([("officialExtensions", names)])));
        }
        if self.bootloader != Bootloader::Default {
            fields.push(("bootloader", string(self.bootloader.name())));
        }
        let mut secureboot = vec![];
        push_text(&mut secureboot, "enrollKeys", &self.secureboot.enroll_keys);
        if self.secureboot.include_well_known_certificates {
            secureboot.push(("includeWellKnownCertificates", Node::plain("true")));
        }
        if !secureboot.is_empty() {
            fields.push(("secureboot", map_of(secureboot)));
        }
        if self.disk_sector_size != 0 {
            let size = Node::plain(self.disk_sector_size.to_string());
            fields.push(("diskImage", map_of([("sectorSize", size)])));
        }
        map_of(fields)
    }
}

fn push_text<'a>(fields: &mut Vec<(&'a str, Node)>, key: &'a str, text: &str) {
    if !text.is_empty() {
        fields.push((key, string(text)));
    }
}

fn read_overlay(node: &Node, path: &str) -> Result<Option<Overlay>, SchematicError> {
    let mut overlay = Overlay::default();
    for (key, value, path) in fields(node, path)? {
        match key {
            "image" => overlay.image = read_text(value, &path)?,
            "name" => overlay.name = read_text(value, &path)?,
            "options" => overlay.options = read_options(value, &path)?,
            _ => return Err(SchematicError::Unknown(path)),
        }
    }
    Ok(Some(overlay).filter(|overlay| *overlay != Overlay::default()))
}

fn read_options(node: &Node, path: &str) -> Result<Option<Node>, SchematicError> {
    let is_empty = fields(node, path)?.is_empty();
    Ok((!is_empty).then(|| untyped(node)))
}

/// Value without a schema, in the form that go-yaml writes: keys are sorted, and scalars have the notation of their
/// type.
fn untyped(node: &Node) -> Node {
    match &node.value {
        Value::Scalar(_) => normal_scalar(node),
        Value::Seq(seq) => Node::from(Value::Seq(Seq {
            items: seq.items.iter().map(untyped).collect(),
            flow: false,
        })),
        Value::Map(map) => {
            let own = map.entries.iter().map(|entry| Entry {
                key: normal_scalar(&entry.key),
                value: untyped(&entry.value),
            });
            let mut entries: Vec<_> = own.collect();
            let key = |entry: &Entry| entry.key.as_str().unwrap_or_default().to_owned();
            entries.sort_by(|a, b| key_order(&key(a), &key(b)));
            Node::from(Value::Map(Map { entries, flow: false }))
        }
    }
}

fn read_customization(node: &Node, path: &str) -> Result<Customization, SchematicError> {
    let mut own = Customization::default();
    for (key, value, path) in fields(node, path)? {
        match key {
            "embeddedMachineConfiguration" => {
                own.embedded_machine_configuration = read_text(value, &path)?;
            }
            "extraKernelArgs" => own.extra_kernel_args = read_texts(value, &path)?,
            "meta" => {
                let items = items(value, &path)?.iter();
                own.meta = items.map(|item| read_meta(item, &path)).collect::<Result<_, _>>()?;
            }
            "systemExtensions" => {
                for (key, value, path) in fields(value, &path)? {
                    match key {
                        "officialExtensions" => own.official_extensions = read_texts(value, &path)?,
                        _ => return Err(SchematicError::Unknown(path)),
                    }
                }
            }
            "bootloader" => own.bootloader = read_bootloader(value, &path)?,
            "secureboot" => own.secureboot = read_secureboot(value, &path)?,
            "diskImage" => {
                for (key, value, path) in fields(value, &path)? {
                    match key {
                        "sectorSize" => own.disk_sector_size = number(value, &path, u64::MAX)?,
                        _ => return Err(SchematicError::Unknown(path)),
                    }
                }
            }
            _ => return Err(SchematicError::Unknown(path)),
        }
    }
    Ok(own)
}

fn read_meta(node: &Node, path: &str) -> Result<MetaValue, SchematicError> {
    let mut meta = MetaValue::default();
    for (key, value, path) in fields(node, path)? {
        match key {
            "key" => {
                let number = number(value, &path, u64::from(u8::MAX))?;
                meta.key.0 = u8::try_from(number).unwrap_or_default();
            }
            "value" => meta.value = read_text(value, &path)?,
            _ => return Err(SchematicError::Unknown(path)),
        }
    }
    Ok(meta)
}

fn read_bootloader(node: &Node, path: &str) -> Result<Bootloader, SchematicError> {
    let name = read_text(node, path)?.to_lowercase();
    let mut names = Bootloader::NAMES.iter();
    match names.find(|(_, known)| *known == name) {
        Some((kind, _)) => Ok(*kind),
        None if node.is_null() => Ok(Bootloader::Default),
        None => Err(SchematicError::Wrong {
            path: path.to_owned(),
            wanted: "one of none, dual-boot, sd-boot, grub",
        }),
    }
}

fn read_secureboot(node: &Node, path: &str) -> Result<SecureBoot, SchematicError> {
    let mut secureboot = SecureBoot::default();
    for (key, value, path) in fields(node, path)? {
        match key {
            "enrollKeys" => secureboot.enroll_keys = read_text(value, &path)?,
            "includeWellKnownCertificates" => {
                secureboot.include_well_known_certificates = flag(value, &path)?;
            }
            _ => return Err(SchematicError::Unknown(path)),
        }
    }
    Ok(secureboot)
}

/// Entries of a mapping, each with its path. Null counts as an empty mapping.
fn fields<'a>(
    node: &'a Node,
    path: &str,
) -> Result<Vec<(&'a str, &'a Node, String)>, SchematicError> {
    if node.is_null() {
        return Ok(vec![]);
    }
    let wrong = || SchematicError::Wrong { path: path.to_owned(), wanted: "a mapping" };
    let mut found: Vec<(&str, &Node, String)> = vec![];
    for entry in &node.as_map().ok_or_else(wrong)?.entries {
        let key = entry.key.as_str().ok_or_else(wrong)?;
        let path = match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        if found.iter().any(|(known, ..)| *known == key) {
            return Err(SchematicError::Twice(path));
        }
        found.push((key, &entry.value, path));
    }
    Ok(found)
}

fn items<'a>(node: &'a Node, path: &str) -> Result<&'a [Node], SchematicError> {
    if node.is_null() {
        return Ok(&[]);
    }
    let seq = node
        .as_seq()
        .ok_or_else(|| SchematicError::Wrong { path: path.to_owned(), wanted: "a list" })?;
    Ok(&seq.items)
}

/// Reads a text. As in go-yaml, any scalar is accepted as text.
fn read_text(node: &Node, path: &str) -> Result<String, SchematicError> {
    match node.as_str() {
        Some(_) if node.is_null() => Ok(String::new()),
        Some(text) => Ok(text.to_owned()),
        None => Err(SchematicError::Wrong { path: path.to_owned(), wanted: "text" }),
    }
}

fn read_texts(node: &Node, path: &str) -> Result<Vec<String>, SchematicError> {
    let items = items(node, path)?.iter();
    items.map(|item| read_text(item, path)).collect()
}

fn number(node: &Node, path: &str, max: u64) -> Result<u64, SchematicError> {
    use talmox_yaml::Resolved;
    let resolved = node.as_scalar().map(talmox_yaml::Scalar::resolve);
    let number = match resolved {
        Some(Resolved::Null) => Some(0),
        Some(Resolved::Int(number)) => u64::try_from(number).ok().filter(|n| *n <= max),
        _ => None,
    };
    number.ok_or_else(|| SchematicError::Wrong {
        path: path.to_owned(),
        wanted: "a whole number in range",
    })
}

fn flag(node: &Node, path: &str) -> Result<bool, SchematicError> {
    // A boolean may also have a notation of YAML 1.1.
    match node.as_str() {
        Some(_) if node.is_null() => Ok(false),
        Some("true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => {
            Ok(true)
        }
        Some(
            "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF",
        ) => Ok(false),
        _ => Err(SchematicError::Wrong { path: path.to_owned(), wanted: "true or false" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::MetaKey;

    const EMPTY: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

    #[test]
    fn ids_equal_those_of_the_factory() {
        for (text, id) in [
            ("", EMPTY),
            ("customization: {}", EMPTY),
            ("{\"customization\": {\"bootloader\": \"none\"}, \"overlay\": {}}", EMPTY),
            (
                "customization: {extraKernelArgs: [noapic, nolapic]}",
                "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
            ),
            (
                "customization: {meta: [{key: 0xa, value: foo}]}",
                "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
            ),
            (
                "customization: {secureboot: {includeWellKnownCertificates: true}}",
                "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
            ),
            (
                "customization: {diskImage: {sectorSize: 4096}}",
                "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
            ),
            (
                "overlay: {name: rpi_generic, image: siderolabs/sbc-raspberrypi}",
                "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
            ),
        ] {
            assert_eq!(Schematic::read(text).unwrap().id(), id, "{text}");
        }
    }

    #[test]
    fn extensions_have_one_order() {
        let schematic = Schematic::default().with_extensions([
            "siderolabs/util-linux-tools",
            "siderolabs/iscsi-tools",
            "siderolabs/qemu-guest-agent",
            "siderolabs/iscsi-tools",
        ]);
        let id = "88d1f7a5c4f1d3aba7df787c448c1d3d008ed29cfb34af53fa0df4336a56040b";
        assert_eq!(schematic.id(), id);
        let with_gpu = schematic.with_extensions([
            "siderolabs/nvidia-open-gpu-kernel-modules-production",
            "siderolabs/nvidia-container-toolkit-production",
        ]);
        let id = "901b9afcf2f7eda57991690fc5ca00414740cc4ee4ad516109bcc58beff1b829";
        assert_eq!(with_gpu.id(), id);
    }

    #[test]
    fn fields_have_one_order() {
        let text = "customization: {diskImage: {sectorSize: 512}, bootloader: Grub, secureboot: {enrollKeys: off}, meta: [{value: 'a: 1', key: 10}], embeddedMachineConfiguration: \"a\\nb\\n\"}\noverlay: {options: {b10: off, b9: 1.50, a: [0644]}, name: n, image: i}\nowner: me";
        let schematic = Schematic::read(text).unwrap();
        assert_eq!(schematic.customization.meta[0].key, MetaKey::METAL_NETWORK);
        assert_eq!(
            schematic.to_yaml(),
            "\
owner: me
overlay:
    image: i
    name: \"n\"
    options:
        a:
            - 420
        b9: 1.5
        b10: \"off\"
customization:
    embeddedMachineConfiguration: |
        a
        b
    meta:
        - key: 10
          value: 'a: 1'
    bootloader: grub
    secureboot:
        enrollKeys: \"off\"
    diskImage:
        sectorSize: 512
"
        );
        assert_eq!(Schematic::read(&schematic.to_yaml()), Ok(schematic));
    }

    #[test]
    fn schematics_that_the_factory_rejects_are_rejected() {
        for (text, message) in [
            ("extensions: []", "`extensions` in the schematic is unknown"),
            (
                "customization: {meta: [{key: 256}]}",
                "`customization.meta.key` in the schematic must be a whole number in range",
            ),
            (
                "customization: {bootloader: lilo}",
                "`customization.bootloader` in the schematic must be one of none, dual-boot, sd-boot, grub",
            ),
            ("customization: []", "`customization` in the schematic must be a mapping"),
            (
                "customization: {}\ncustomization: {}",
                "`customization` is set twice in the schematic",
            ),
        ] {
            assert_eq!(Schematic::read(text).unwrap_err().to_string(), message);
        }
    }
}
