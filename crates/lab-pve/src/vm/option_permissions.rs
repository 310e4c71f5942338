//! Permissions to change VM options. The option names are checked first, then the values.

use super::drive::{self, Drive, DriveSource};
use super::identity::is_net;
use crate::permission::permission_denied;
use crate::pve_state::{Caller, Config, ContentType, PveState, VolumeId};
use crate::schema::{self, FormatName};
use crate::storage;
use crate::{ApiError, Release};

/// Change of a VM config by a caller. `pool` is the pool of a VM that is being created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfigChange<'a> {
    pub(crate) pve_state: &'a PveState,
    pub(crate) caller: &'a Caller,
    pub(crate) vmid: u32,
    pub(crate) pool: Option<&'a str>,
}

const CPU: &[&str] =
    &["cores", "cpu", "cpulimit", "cpuunits", "numa", "smp", "sockets", "vcpus", "runningcpu"];
const MEMORY: &[&str] = &["memory", "balloon", "shares", "allow-ksm"];
const HARDWARE: &[&str] = &[
    "acpi",
    "hotplug",
    "kvm",
    "machine",
    "scsihw",
    "smbios1",
    "tablet",
    "vga",
    "watchdog",
    "audio0",
    "rng0",
    "runningmachine",
];
const OPTIONS: &[&str] = &[
    "agent",
    "autostart",
    "bios",
    "description",
    "keyboard",
    "localtime",
    "migrate_downtime",
    "migrate_speed",
    "name",
    "onboot",
    "ostype",
    "protection",
    "reboot",
    "startdate",
    "startup",
    "tdf",
    "template",
];
const DISK: &[&str] = &["boot", "bootdisk", "vmstatestorage"];
const CLOUDINIT: &[&str] = &[
    "cicustom",
    "cipassword",
    "citype",
    "ciuser",
    "ciupgrade",
    "nameserver",
    "searchdomain",
    "sshkeys",
];

impl ConfigChange<'_> {
    fn vm(&self, privileges: &[&str]) -> Result<(), ApiError> {
        self.pve_state.check_vm(self.caller, self.vmid, self.pool, privileges)
    }

    /// Checks the privileges that the option names require.
    pub(crate) fn check_names<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k String>,
    ) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        for key in keys {
            self.check_name(key)?;
        }
        Ok(())
    }

    fn check_name(&self, key: &str) -> Result<(), ApiError> {
        let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let by_value = ["unused", "serial", "usb", "hostpci", "virtiofs"];
        let is = |list: &[&str]| list.contains(&key);
        if drive::is_slot(key) || is(&["cdrom", "tags"]) || bare != key && by_value.contains(&bare)
        {
            return Ok(());
        }
        if is(CPU) || bare == "numa" {
            return self.vm(&["VM.Config.CPU"]);
        }
        if is(MEMORY) {
            return self.vm(&["VM.Config.Memory"]);
        }
        if is(HARDWARE) {
            return self.vm(&["VM.Config.HWType"]);
        }
        if is(OPTIONS) {
            self.vm(&["VM.Config.Options"])?;
            // The start order of a VM also affects other VMs of the host.
            if key == "startup" {
                self.pve_state.check(self.caller, "/", &["Sys.Modify"])?;
            }
            return Ok(());
        }
        if key == "freeze" {
            return self.vm(&["VM.PowerMgmt"]);
        }
        if is(DISK) {
            return self.vm(&["VM.Config.Disk"]);
        }
        if is_net(key) || key == "running-nets-host-mtu" {
            return self.vm(&["VM.Config.Network"]);
        }
        if is(CLOUDINIT) || bare == "ipconfig" && bare != key {
            return self.vm_any(&["VM.Config.Cloudinit", "VM.Config.Network"]);
        }
        if key == "vmstate" {
            return self.vm(&["VM.Config.Disk", "VM.PowerMgmt"]);
        }
        Err(ApiError::failed(format!("only root can set '{key}' config")))
    }

    fn vm_any(&self, privileges: &[&str]) -> Result<(), ApiError> {
        let by_pool =
            |pool| self.pve_state.allowed_any(self.caller, &format!("/pool/{pool}"), privileges);
        if self.pool.is_some_and(by_pool) {
            return Ok(());
        }
        self.pve_state.check_any(self.caller, &format!("/vms/{}", self.vmid), privileges)
    }

    /// Checks the privileges that the device options of a new VM require.
    pub(crate) fn check_devices(&self, config: &Config) -> Result<(), ApiError> {
        let numbered = |name: &'static str| {
            config.iter().filter(move |(key, _)| {
                key.strip_prefix(name)
                    .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            })
        };
        for (key, value) in numbered("serial") {
            self.check_serial("set", key, value, true)?;
        }
        for name in ["usb", "hostpci", "rng", "virtiofs"] {
            for (key, value) in numbered(name) {
                self.check_device(key, value)?;
            }
        }
        Ok(())
    }

    /// Checks the privileges that the value of a device option requires.
    pub(crate) fn check_device(&self, key: &str, value: &str) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "usb" => self.check_usb(key, value),
            "hostpci" => self.check_pci(key, value),
            "rng" => {
                self.vm(&["VM.Config.HWType"])?;
                let fields = self.fields(FormatName::Rng, value);
                if fields.get("source") == Some("/dev/hwrng") {
                    self.pve_state.check(self.caller, "/mapping/hwrng", &["Mapping.Use"])?;
                }
                Ok(())
            }
            "virtiofs" => {
                self.vm(&["VM.Config.Disk"])?;
                let fields = self.fields(FormatName::VirtioFs, value);
                let dir = fields.get("dirid").unwrap_or_default();
                self.pve_state.check(self.caller, &format!("/mapping/dir/{dir}"), &["Mapping.Use"])
            }
            _ => Ok(()),
        }
    }

    fn fields(&self, format: FormatName, value: &str) -> schema::Fields {
        schema::format(self.pve_state.release, format).parse(value).unwrap_or_default()
    }

    fn check_usb(&self, key: &str, value: &str) -> Result<(), ApiError> {
        self.vm(&["VM.Config.HWType"])?;
        let fields = self.fields(FormatName::Usb, value);
        match (fields.get("host"), fields.get("mapping")) {
            (Some(host), _) if host.eq_ignore_ascii_case("spice") => Ok(()),
            (Some(_), _) => {
                Err(ApiError::failed(format!("only root can set '{key}' config for real devices")))
            }
            (None, Some(id)) => {
                self.pve_state.check(self.caller, &format!("/mapping/usb/{id}"), &["Mapping.Use"])
            }
            (None, None) => Err(ApiError::failed("either 'host' or 'mapping' must be set.")),
        }
    }

    fn check_pci(&self, key: &str, value: &str) -> Result<(), ApiError> {
        let fields = self.fields(FormatName::HostPci, value);
        match (fields.get("host"), fields.get("mapping")) {
            (Some(_), _) => {
                return Err(ApiError::failed(format!(
                    "only root can set '{key}' config for non-mapped devices"
                )));
            }
            (None, Some(id)) => {
                self.pve_state.check(
                    self.caller,
                    &format!("/mapping/pci/{id}"),
                    &["Mapping.Use"],
                )?;
                self.vm(&["VM.Config.HWType"])?;
            }
            (None, None) => {
                return Err(ApiError::failed("either 'host' or 'mapping' must be set."));
            }
        }
        if fields.get("romfile").is_some() {
            return Err(ApiError::parameter(key, "only root@pam can set 'romfile' option"));
        }
        Ok(())
    }

    /// Checks the privileges for a serial port. A port on a socket requires `VM.Config.HWType`. A port on a device of the host
    /// requires root.
    pub(crate) fn check_serial(
        &self,
        verb: &str,
        key: &str,
        value: &str,
        was_socket: bool,
    ) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        if value == "socket" && was_socket {
            return self.vm(&["VM.Config.HWType"]);
        }
        Err(ApiError::failed(format!("only root can {verb} '{key}' config for real devices")))
    }

    /// Checks permissions on the bridges of all network cards.
    pub(crate) fn check_bridges(&self, config: &Config) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        for (_, value) in config.iter().filter(|(key, _)| is_net(key)) {
            let fields = self.fields(FormatName::Net, value);
            let tag = fields.get("tag").and_then(|tag| tag.parse().ok());
            match fields.get("bridge") {
                Some(bridge) => {
                    self.pve_state.check_bridge(self.caller, bridge, tag, fields.get("trunks"))?;
                }
                None if self.pve_state.release == Release::V8 => {
                    return Err(ApiError::failed("no sdn vnet ID specified"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Checks the privilege `Mapping.Use` on a custom CPU model. A model that the VM already has requires no privilege.
    pub(crate) fn check_cpu_model(
        &self,
        new: &Config,
        old: Option<&Config>,
    ) -> Result<(), ApiError> {
        let model = |config: &Config| {
            let cpu = config.get("cpu")?;
            self.fields(FormatName::Cpu, cpu).get("cputype").map(str::to_owned)
        };
        let Some(new) = model(new) else { return Ok(()) };
        let unchanged = old.and_then(model).is_some_and(|old| old == new);
        match new.strip_prefix("custom-") {
            Some(name) if !unchanged => {
                self.pve_state.check(self.caller, &format!("/mapping/cpu/{name}"), &["Mapping.Use"])
            }
            _ => Ok(()),
        }
    }

    /// Checks the privileges that the drives of a config require on storages.
    pub(crate) fn check_storages(
        &self,
        config: &Config,
        default_storage: Option<&str>,
    ) -> Result<(), ApiError> {
        for (key, value) in config.iter().filter(|(key, _)| drive::is_slot(key)) {
            if let Some(drive) = Drive::parse(key, value) {
                self.check_source(&drive, default_storage)?;
            }
        }
        for (key, value) in config.iter().filter(|(key, _)| drive::is_unused(key)) {
            let volume = Drive::parse(key, value).and_then(|drive| VolumeId::parse(drive.file()));
            let Some(volume) = volume else {
                return Err(ApiError::parameter(key, format!("failed to parse value '{value}'")));
            };
            self.check_volume(&volume, Some(ContentType::Images))?;
        }
        if let Some(storage) = config.get("vmstatestorage") {
            self.allocate_on(storage)?;
        }
        Ok(())
    }

    fn allocate_on(&self, storage: &str) -> Result<(), ApiError> {
        self.pve_state.check(
            self.caller,
            &format!("/storage/{storage}"),
            &["Datastore.AllocateSpace"],
        )
    }

    fn check_source(&self, drive: &Drive, default_storage: Option<&str>) -> Result<(), ApiError> {
        match drive.source() {
            DriveSource::None | DriveSource::NewCloudinit { .. } => {}
            DriveSource::HostCdrom if drive.is_cdrom() => {
                self.pve_state.check(self.caller, "/", &["Sys.Console"])?;
            }
            DriveSource::New { storage, .. } if !drive.is_cdrom() => {
                let storage = storage.as_deref().or(default_storage).ok_or_else(no_storage)?;
                self.allocate_on(storage)?;
                if !self.pve_state.storage(storage)?.content.contains(&ContentType::Images) {
                    let text = format!("storage '{storage}' does not support vm images");
                    return Err(ApiError::parameter("storage", text));
                }
            }
            _ => match VolumeId::parse(drive.file()) {
                Some(volume) => {
                    let kind = self.check_volume(&volume, None)?;
                    if !matches!(kind, ContentType::Images | ContentType::Iso) {
                        let text = "content type needs to be 'images' or 'iso'";
                        return Err(ApiError::parameter(&drive.key, text));
                    }
                }
                None => self.check_path()?,
            },
        }
        match drive.get("import-from") {
            Some(source) => self.check_import(drive, source),
            None => Ok(()),
        }
    }

    fn check_import(&self, drive: &Drive, source: &str) -> Result<(), ApiError> {
        let Some(volume) = VolumeId::parse(source).filter(|_| !source.starts_with('/')) else {
            return self.check_path();
        };
        let name = storage::name_of(self.pve_state, &volume)?;
        if !matches!(name.content, ContentType::Images | ContentType::Import) {
            let text = format!(
                "{source} has wrong type '{}' - needs to be 'images' or 'import'",
                name.content.name()
            );
            return Err(ApiError::parameter(&drive.key, text));
        }
        match name.owner {
            Some(owner) => {
                self.pve_state.check(self.caller, &format!("/vms/{owner}"), &["VM.Clone"])
            }
            None => self.check_volume(&volume, None).map(drop),
        }
    }

    /// Checks whether the caller may use a volume, and returns the content type of the volume.
    pub(crate) fn check_volume(
        &self,
        volume: &VolumeId,
        wanted: Option<ContentType>,
    ) -> Result<ContentType, ApiError> {
        let (pve_state, caller) = (self.pve_state, self.caller);
        let name = storage::name_of(pve_state, volume)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != name.content) {
            return Err(ApiError::failed(format!(
                "unable to use volume {volume} - content type needs to be '{}'",
                wanted.name()
            )));
        }
        storage::check_access(pve_state, caller, Some(self.vmid), volume)?;
        Ok(name.content)
    }

    pub(crate) fn check_path(&self) -> Result<(), ApiError> {
        if self.caller.is_root() {
            return Ok(());
        }
        Err(ApiError::failed(
            "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 640.",
        ))
    }

    /// Checks the privileges to change a drive of an existing VM.
    pub(crate) fn check_drive(&self, key: &str, value: &str) -> Result<(), ApiError> {
        let Some(drive) = Drive::parse(key, value) else { return Ok(()) };
        if drive.is_cloudinit() {
            self.vm(&["VM.Config.Cloudinit", "VM.Config.CDROM"])
        } else if drive.is_cdrom() {
            self.vm(&["VM.Config.CDROM"])
        } else {
            self.vm(&["VM.Config.Disk"])
        }
    }

    /// Checks the privilege to create the VM.
    pub(crate) fn check_create(&self) -> Result<(), ApiError> {
        let by_pool =
            |pool| self.pve_state.allowed(self.caller, &format!("/pool/{pool}"), &["VM.Allocate"]);
        let allowed =
            self.pve_state.allowed(self.caller, &format!("/vms/{}", self.vmid), &["VM.Allocate"])
                || self.pool.is_some_and(by_pool);
        if allowed { Ok(()) } else { Err(permission_denied("")) }
    }
}

/// Whether an option only affects the cloud-init drive.
pub(crate) fn is_cloudinit_option(key: &str) -> bool {
    CLOUDINIT.contains(&key)
}

pub(crate) fn no_storage() -> ApiError {
    ApiError::failed("no storage ID specified (and no default storage)")
}
