//! Kernel command line of an image, and the iPXE script.

use semver::Version;
use talmox_talos_config::schematic::Schematic;

use super::artefact::ImageTarget;
use crate::image::{Arch, Platform};

/// Kernel arguments: those of the platform and of the release, followed by those of the schematic. An argument of the schematic
/// replaces the console and platform arguments. An argument with the prefix `-` removes other arguments.
pub(super) fn arguments(target: ImageTarget, version: &Version, schematic: &Schematic) -> String {
    let mut arguments: Vec<String> = vec![];
    let mut add = |text: &str| arguments.extend(text.split(' ').map(str::to_owned));
    match (target.platform, target.arch) {
        (Platform::Nocloud, _) => {
            add("talos.platform=nocloud console=tty1 console=ttyS0 net.ifnames=0");
        }
        (Platform::Metal, Arch::Amd64) => add("talos.platform=metal console=tty0"),
        (Platform::Metal, Arch::Arm64) => {
            add("talos.platform=metal console=ttyAMA0 console=tty0");
        }
    }
    let minor = version.minor;
    if minor < 14 {
        add("init_on_alloc=1");
    }
    add("slab_nomerge= pti=on consoleblank=0");
    if minor < 14 {
        add("nvme_core.io_timeout=4294967295");
    }
    add("printk.devkmsg=on");
    if minor <= 10 {
        add("ima_template=ima-ng ima_appraise=fix ima_hash=sha512");
    }
    if minor >= 10 {
        add("selinux=1");
    }
    if minor >= 12 {
        add("module.sig_enforce=1");
    }
    if minor >= 13 {
        add("proc_mem.force_override=never");
    }
    if target.secureboot {
        add("lockdown=confidentiality");
    }
    customize(&mut arguments, &schematic.customization.extra_kernel_args);
    arguments.join(" ")
}

fn customize(arguments: &mut Vec<String>, extra: &[String]) {
    for name in ["console", "talos.platform"] {
        if extra.iter().any(|argument| name_of(argument) == name) {
            arguments.retain(|argument| name_of(argument) != name);
        }
    }
    for argument in extra {
        match argument.strip_prefix('-') {
            Some(negated) if negated.contains('=') => arguments.retain(|known| known != negated),
            Some(negated) => arguments.retain(|known| name_of(known) != negated),
            None => arguments.push(argument.clone()),
        }
    }
}

fn name_of(argument: &str) -> &str {
    argument.split('=').next().unwrap_or_default()
}

/// iPXE script. `base` is the base URL of the files.
pub(super) fn boot_script(
    target: ImageTarget,
    version: &Version,
    schematic: &Schematic,
    base: &str,
) -> String {
    let arguments = arguments(target, version, schematic);
    let arch = match target.arch {
        Arch::Amd64 => "amd64",
        Arch::Arm64 => "arm64",
    };
    if target.secureboot {
        let platform = match target.platform {
            Platform::Nocloud => "nocloud",
            Platform::Metal => "metal",
        };
        let kernel = format!("{base}/{platform}-{arch}-secureboot-uki.efi");
        return format!("#!ipxe\n\nimgfree\nkernel {kernel} {arguments}\nboot\n");
    }
    format!(
        "#!ipxe\n\nimgfree\nkernel {base}/kernel-{arch} {arguments}\n\
         initrd {base}/initramfs-{arch}.xz\nboot\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str, extra: &[&str]) -> String {
        let mut schematic = Schematic::default();
        let extra = extra.iter().map(|argument| (*argument).to_owned());
        schematic.customization.extra_kernel_args = extra.collect();
        arguments(ImageTarget::parse(name).unwrap(), &Version::parse(version).unwrap(), &schematic)
    }

    #[test]
    fn kernel_arguments_differ_by_release() {
        assert_eq!(
            of("nocloud-amd64", "1.13.6", &[]),
            "talos.platform=nocloud console=tty1 console=ttyS0 net.ifnames=0 init_on_alloc=1 \
             slab_nomerge= pti=on consoleblank=0 nvme_core.io_timeout=4294967295 printk.devkmsg=on \
             selinux=1 module.sig_enforce=1 proc_mem.force_override=never"
        );
        assert!(of("metal-amd64", "1.8.4", &[]).ends_with("ima_hash=sha512"));
        assert!(!of("metal-amd64", "1.14.0-rc.1", &[]).contains("init_on_alloc"));
    }

    #[test]
    fn schematics_add_replace_and_remove_arguments() {
        let text = of("metal-amd64", "1.13.6", &["console=ttyS1", "-pti", "net.ifnames=0"]);
        assert!(text.ends_with("console=ttyS1 net.ifnames=0"), "{text}");
        assert!(!text.contains("tty0") && !text.contains("pti="), "{text}");
    }
}
