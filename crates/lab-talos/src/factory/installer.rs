//! References to installer images. The lab has no registry. Only nodes pull installers, and they need only the Talos version
//! and the schematic in the reference.

use talmox_talos_config::schematic::Schematic;

use super::{Factory, check, parse_version};
use crate::image::{Medium, Platform, TalosImage};

/// First minor release that has a separate installer for each platform.
const FIRST_PLATFORM_MINOR: u64 = 10;

/// Parsed reference of an installer image.
#[derive(Debug, PartialEq, Eq)]
struct InstallerReference<'a> {
    host: &'a str,
    /// Platform; `None` for the generic installer. Since 1.10 the generic installer means `metal`, before 1.10 the platform of
    /// the node.
    platform: Option<Platform>,
    secureboot: bool,
    /// Schematic id; `None` for an installer without extensions.
    schematic: Option<&'a str>,
    version: &'a str,
}

impl Factory {
    /// Talos image that an installer writes to the disk. The error is the reason why the installer cannot be pulled.
    pub(crate) fn installer(&self, name: &str) -> Result<TalosImage, String> {
        let failed = |why: &str| format!("failed to resolve reference \"{name}\": {why}");
        let missing = || failed(&format!("{name}: not found"));
        let reference = InstallerReference::parse(name).ok_or_else(missing)?;
        let version = parse_version(reference.version).map_err(|_| missing())?;
        if reference.platform.is_some() && version.minor < FIRST_PLATFORM_MINOR {
            return Err(missing());
        }
        let schematic = if let Some(id) = reference.schematic {
            let host = reference.host;
            if !self.environment.outside.has_server(host, 443) {
                let url = format!("https://{host}/v2/: dial tcp: lookup {host}: no such host");
                return Err(failed(&format!("failed to do request: Head {url}")));
            }
            self.schematics.get(id).ok_or_else(missing)?
        } else {
            // Since 1.14, only the Image Factory publishes installers.
            if reference.host != "ghcr.io" || version.minor >= 14 {
                return Err(missing());
            }
            Schematic::default()
        };
        check(&schematic, &version).map_err(|_| missing())?;
        let InstallerReference { platform, secureboot, .. } = reference;
        let platform = platform.unwrap_or(Platform::Metal);
        let text = format!("v{version}");
        Ok(TalosImage::new(text, platform, schematic, secureboot, Medium::Disk))
    }
}

impl<'a> InstallerReference<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let (path, version) = name.rsplit_once(':')?;
        let version = version.split('@').next()?;
        let mut parts = path.split('/');
        let (host, first, second) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        if first == "siderolabs" {
            return (second == "installer").then_some(Self {
                host,
                platform: None,
                secureboot: false,
                schematic: None,
                version,
            });
        }
        let (kind, secureboot) = match first.strip_suffix("-secureboot") {
            Some(kind) => (kind, true),
            None => (first, false),
        };
        let platform = match kind {
            "installer" => None,
            "metal-installer" => Some(Platform::Metal),
            "nocloud-installer" => Some(Platform::Nocloud),
            _ => return None,
        };
        Some(Self { host, platform, secureboot, schematic: Some(second), version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installer_references_are_resolved() {
        let parsed =
            InstallerReference::parse("factory.talos.dev/nocloud-installer-secureboot/abc:v1.13.6");
        let wanted = InstallerReference {
            host: "factory.talos.dev",
            platform: Some(Platform::Nocloud),
            secureboot: true,
            schematic: Some("abc"),
            version: "v1.13.6",
        };
        assert_eq!(parsed, Some(wanted));
        let official = InstallerReference::parse("ghcr.io/siderolabs/installer:v1.12.0").unwrap();
        assert_eq!((official.schematic, official.platform), (None, None));
        assert_eq!(InstallerReference::parse("factory.talos.dev/aws-installer/abc:v1.13.6"), None);
        assert_eq!(InstallerReference::parse("nginx"), None);
    }
}
