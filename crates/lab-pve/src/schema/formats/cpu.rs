//! CPU models and the format of the option `cpu`.

use super::super::format::{Fields, Format};
use super::super::property::{flag, formatted, integer, one_of, p, pattern, text};
use super::super::value_format::PHYSICAL_BITS;
use crate::Release;

/// Built-in CPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuModel {
    pub(crate) name: &'static str,
    pub(crate) vendor: &'static str,
}

const INTEL: &str = "486 pentium pentium2 pentium3 coreduo core2duo Conroe Penryn \
    Nehalem Nehalem-IBRS Westmere Westmere-IBRS SandyBridge SandyBridge-IBRS IvyBridge IvyBridge-IBRS \
    Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS \
    Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS \
    Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS Skylake-Client-v4 \
    Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4 Skylake-Server-v5 \
    Cascadelake-Server Cascadelake-Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 \
    Cascadelake-Server-v5 KnightsMill Cooperlake Cooperlake-v2 Icelake-Client Icelake-Client-noTSX \
    Icelake-Server Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 \
    Icelake-Server-v6 SapphireRapids SapphireRapids-v2 GraniteRapids";
const INTEL_SINCE_9: &str = "Icelake-Server-v7 SapphireRapids-v3 SapphireRapids-v4 \
    SierraForest SierraForest-v2 SierraForest-v3 GraniteRapids-v2 GraniteRapids-v3 ClearwaterForest";
const AMD: &str = "athlon phenom Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 \
    EPYC EPYC-IBPB EPYC-v3 EPYC-v4 EPYC-Rome EPYC-Rome-v2 EPYC-Rome-v3 EPYC-Rome-v4 \
    EPYC-Milan EPYC-Milan-v2 EPYC-Genoa";
const AMD_SINCE_9: &str = "EPYC-v5 EPYC-Rome-v5 EPYC-Milan-v3 EPYC-Genoa-v2 EPYC-Turin";
const ARM_SINCE_9: &str = "a64fx cortex-a35 cortex-a53 cortex-a55 cortex-a57 cortex-a710 cortex-a72 \
    cortex-a76 neoverse-n1 neoverse-n2 neoverse-v1";
const OTHER: &str = "host kvm32 kvm64 max qemu32 qemu64";

/// Models that Proxmox defines as QEMU's `qemu64` with additional flags.
const LEVELS: [&str; 4] = ["x86-64-v2", "x86-64-v2-AES", "x86-64-v3", "x86-64-v4"];

/// CPU models of QEMU in a release, in the order in which error messages list them.
pub(crate) fn cpu_models(release: Release) -> Vec<CpuModel> {
    let mut models: Vec<CpuModel> = unsorted(release).collect();
    models.sort_by_key(|model| model.name.to_ascii_lowercase());
    models
}

fn unsorted(release: Release) -> impl Iterator<Item = CpuModel> {
    let groups = [
        (INTEL, "GenuineIntel", Release::V8),
        (INTEL_SINCE_9, "GenuineIntel", Release::V9),
        (AMD, "AuthenticAMD", Release::V8),
        (AMD_SINCE_9, "AuthenticAMD", Release::V9),
        (ARM_SINCE_9, "ARM", Release::V9),
        (OTHER, "default", Release::V8),
    ];
    let of_release = groups.into_iter().filter(move |(_, _, since)| release >= *since);
    of_release.flat_map(|(names, vendor, _)| {
        names.split_whitespace().map(move |name| CpuModel { name, vendor })
    })
}

/// Whether a CPU model is built in.
fn is_cpu_model(release: Release, name: &str) -> bool {
    LEVELS.contains(&name) || unsorted(release).any(|model| model.name == name)
}

/// CPU flags that a VM can set, in the order in which error messages list them.
fn flags(release: Release) -> &'static [&'static str] {
    match release {
        Release::V8 => &[
            "pcid",
            "spec-ctrl",
            "ibpb",
            "ssbd",
            "virt-ssbd",
            "amd-ssbd",
            "amd-no-ssb",
            "pdpe1gb",
            "md-clear",
            "hv-tlbflush",
            "hv-evmcs",
            "aes",
        ],
        Release::V9 => &[
            "aes",
            "amd-no-ssb",
            "amd-ssbd",
            "hv-evmcs",
            "hv-tlbflush",
            "ibpb",
            "md-clear",
            "nested-virt",
            "pcid",
            "pdpe1gb",
            "spec-ctrl",
            "ssbd",
            "virt-ssbd",
        ],
    }
}

pub(super) fn cpu(release: Release) -> Format {
    let models = cpu_models(release);
    Format::new(
        release,
        [
            p("cputype", text().default_key()),
            p(
                "flags",
                pattern(r"(?:(?:([+-])([a-zA-Z0-9\-_\.]+))(;(?:([+-])([a-zA-Z0-9\-_\.]+)))*)"),
            ),
            p("guest-phys-bits", integer().min(32).max(64).since(Release::V9)),
            p("hidden", flag()),
            p("hv-vendor-id", pattern("(?:[a-zA-Z0-9]{1,12})")),
            p("level", integer().min(0).max(4_294_967_295).since(Release::V9)),
            p("phys-bits", formatted(PHYSICAL_BITS)),
            p("reported-model", one_of(models.iter().map(|model| model.name))),
        ],
    )
    .named("pve-vm-cpu-conf")
    .with_check(check_cpu)
}

/// Checks that the CPU model exists, that the flags are permitted for VMs, and that no key is set that only custom models have.
fn check_cpu(fields: &Fields, release: Release) -> Result<(), String> {
    let model =
        fields.get("cputype").filter(|model| *model != "0").ok_or("CPU is missing cputype")?;
    if let Some(custom) = model.strip_prefix("custom-") {
        return Err(format!("Custom cputype '{custom}' not found"));
    }
    if !is_cpu_model(release, model) {
        return Err(format!(
            "Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)"
        ));
    }
    let known = flags(release);
    let is_known = |flag: &str| flag.get(1..).is_some_and(|name| known.contains(&name));
    if !fields.get("flags").is_none_or(|flags| flags.split(';').all(is_known)) {
        let known = known.join(", ");
        return Err(format!("VM-specific CPU flags must be a subset of: {known}"));
    }
    if fields.has("reported-model") {
        return Err("Property 'reported-model' not allowed in VM-specific CPU config.".to_owned());
    }
    Ok(())
}
