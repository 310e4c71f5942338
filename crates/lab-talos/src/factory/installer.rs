//! What the names of installer images mean. There is no registry: nobody but nodes pulls them, and
//! all that nodes take from them is which Talos comes onto the disk.

use talmox_talos_config::schematic::Schematic;

use super::{Factory, check, parse_version};
use crate::image::{Medium, Platform, TalosImage};

/// The minor release from which on there are installers for each platform.
const PLATFORMS: u64 = 10;

/// A name, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    host: &'a str,
    /// None for the plain installer: metal, and whatever it finds before 1.10.
    platform: Option<Platform>,
    secureboot: bool,
    /// None for the installer without extensions.
    schematic: Option<&'a str>,
    version: &'a str,
}

impl Factory {
    /// What an installer of this name puts onto a disk; or why it cannot be pulled.
    pub(crate) fn installer(&self, name: &str) -> Result<TalosImage, String> {
        let failed = |why: &str| format!("failed to resolve reference \"{name}\": {why}");
        let missing = || failed(&format!("{name}: not found"));
        let reference = Reference::parse(name).ok_or_else(missing)?;
        let version = parse_version(reference.version).map_err(|_| missing())?;
        if reference.platform.is_some() && version.minor < PLATFORMS {
            return Err(missing());
        }
        let schematic = if let Some(id) = reference.schematic {
            let host = reference.host;
            if !self.environment.outside.reach.contains_key(&format!("{host}:443")) {
                let url = format!("https://{host}/v2/: dial tcp: lookup {host}: no such host");
                return Err(failed(&format!("failed to do request: Head {url}")));
            }
            self.schematics.get(id).ok_or_else(missing)?
        } else {
            // From 1.14 on there is only the factory's.
            if reference.host != "ghcr.io" || version.minor >= 14 {
                return Err(missing());
            }
            Schematic::default()
        };
        check(&schematic, &version).map_err(|_| missing())?;
        let Reference { platform, secureboot, .. } = reference;
        let platform = platform.unwrap_or(Platform::Metal);
        let text = format!("v{version}");
        Ok(TalosImage::new(text, platform, schematic, secureboot, Medium::Disk))
    }
}

impl<'a> Reference<'a> {
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
    fn names_say_what_is_installed() {
        let parsed = Reference::parse("factory.talos.dev/nocloud-installer-secureboot/abc:v1.13.6");
        let wanted = Reference {
            host: "factory.talos.dev",
            platform: Some(Platform::Nocloud),
            secureboot: true,
            schematic: Some("abc"),
            version: "v1.13.6",
        };
        assert_eq!(parsed, Some(wanted));
        let official = Reference::parse("ghcr.io/siderolabs/installer:v1.12.0").unwrap();
        assert_eq!((official.schematic, official.platform), (None, None));
        assert_eq!(Reference::parse("factory.talos.dev/aws-installer/abc:v1.13.6"), None);
        assert_eq!(Reference::parse("nginx"), None);
    }
}
