//! Tests with images that the lab builds, and with volumes that other programs build.

mod fat;
mod volume;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use talmox_talos_config::cidata;
use tempfile::TempDir;

use super::*;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Runs an external program, which must succeed; `None` if the program is not installed, which is reported on stderr.
fn run(program: &str, args: &[&str]) -> Option<()> {
    let Ok(output) = Command::new(program).args(args).output() else {
        let line = format!("SKIPPED: `{program}` is not installed\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    };
    let (out, err) = (output.stdout, output.stderr);
    let text = [out, err].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{program} {args:?}: {text}");
    Some(())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn talos(version: &str, medium: Medium) -> System {
    let yaml = "customization:\n  meta: [{key: 10, value: \"a: b\"}]\n  systemExtensions:\n    \
                officialExtensions: [siderolabs/qemu-guest-agent]\n";
    let schematic = Schematic::read(yaml).unwrap();
    let version = version.to_owned();
    System::Talos(TalosImage::new(version, Platform::Nocloud, schematic, false, medium))
}

#[test]
fn systems_are_found_in_every_image_format() {
    let scratch = Scratch::new();
    let system = talos("v1.13.6", Medium::Disk);
    let full = system.disk(Arch::Amd64, Scale::Full);
    assert_eq!(full.size, 4_453_302_272);
    let small = system.disk(Arch::Amd64, Scale::Small);
    assert!(small.size <= 16 << 20, "{}", small.size);
    let files = [
        scratch.file("a.qcow2", &full.to_qcow2(13)),
        scratch.file("b.qcow2", &full.to_qcow2(16)),
        scratch.file("a.raw", &small.to_raw()),
        scratch.file("c.qcow2", &small.to_qcow2(13)),
    ];
    for file in files {
        assert_eq!(System::read(&file), Some(system.clone()), "{}", file.display());
    }
    let System::Talos(TalosImage { schematic_id, meta, .. }) = &system else { unreachable!() };
    assert_eq!(schematic_id.len(), 64);
    assert_eq!(meta, &BTreeMap::from([(10, "a: b".to_owned())]));

    let cd = talos("v1.8.4", Medium::Iso);
    let file = scratch.file("a.iso", &cd.iso(Arch::Amd64));
    assert_eq!(System::read(&file), Some(cd));
    assert_eq!(cidata_files(&file), None);

    let ubuntu = System::Ubuntu(UbuntuImage { release: "24.04".into(), codename: "noble".into() });
    let disk = ubuntu.disk(Arch::Amd64, Scale::Full);
    assert_eq!(disk.size, 3584 << 20);
    let file = scratch.file("u.img", &disk.to_qcow2(16));
    assert_eq!(System::read(&file), Some(ubuntu));
}

#[test]
fn images_without_a_system_are_not_bootable() {
    let scratch = Scratch::new();
    let foreign = talos("v1.13.6", Medium::Disk).disk(Arch::Arm64, Scale::Small).to_raw();
    let cut = &talos("v1.13.6", Medium::Disk).disk(Arch::Amd64, Scale::Small).to_raw()[..1 << 20];
    for bytes in [&b""[..], b"x", &[0; 4096], &foreign, cut] {
        assert_eq!(System::read(&scratch.file("x", bytes)), None);
        assert_eq!(cidata_files(&scratch.path("x")), None);
    }
    assert_eq!(System::read(&scratch.path("none")), None);
}

#[test]
fn compressed_clusters_are_read() {
    let scratch = Scratch::new();
    let system = talos("v1.13.6", Medium::Disk);
    let mut image = system.disk(Arch::Amd64, Scale::Small).to_qcow2(13);
    // The descriptor is at 1 MiB, which is the 129th cluster. Its entry is in the first L2 table, which is the fifth cluster of
    // the file.
    let entry = 4 * 8192 + 128 * 8;
    let place = u64::from_be_bytes(image[entry..entry + 8].try_into().unwrap()) & ((1 << 56) - 1);
    let place = usize::try_from(place).unwrap();
    let mut encoder = flate2::write::DeflateEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(&image[place..place + 8192]).unwrap();
    let packed = encoder.finish().unwrap();
    image[place..place + 8192].fill(0);
    // The compressed cluster is at the end of the file, and starts in the middle of a sector.
    image.resize(image.len() + 100, 0);
    let at = image.len();
    let sectors = (at % 512 + packed.len()).div_ceil(512) - 1;
    image.extend(packed);
    let new = 1 << 62 | u64::try_from(sectors).unwrap() << 57 | u64::try_from(at).unwrap();
    image[entry..entry + 8].copy_from_slice(&new.to_be_bytes());
    assert_eq!(System::read(&scratch.file("a.qcow2", &image)), Some(system));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_images_are_read_without_a_panic(hits in prop::collection::vec((any::<u16>(), any::<u8>()), 1..24)) {
        let scratch = Scratch::new();
        let cd = cidata::volume(&[("user-data", b"x")]).unwrap().as_bytes().to_vec();
        let qcow2 = talos("v1.13.6", Medium::Disk).disk(Arch::Amd64, Scale::Full).to_qcow2(13);
        for mut image in [cd, qcow2, fat::image(2880, &[7; 700])] {
            for (at, byte) in &hits {
                // The first 64 KiB of a file contain most of the metadata of each format.
                let at = usize::from(*at) % image.len();
                image[at] = *byte;
            }
            let file = scratch.file("a", &image);
            // The readers must return. Their results do not matter.
            System::read(&file);
            cidata_files(&file);
        }
    }
}

#[test]
fn disk_sizes_equal_those_of_the_releases() {
    let size = |version: &str, arch| talos(version, Medium::Disk).disk(arch, Scale::Full).size;
    assert_eq!(size("v1.9.6", Arch::Amd64), 1_306_525_696);
    assert_eq!(size("v1.10.9", Arch::Amd64), 2_356_150_272);
    assert_eq!(size("v1.11.0", Arch::Amd64), 4_453_302_272);
    assert_eq!(size("v1.14.0-rc.1", Arch::Arm64), 2246 << 20);
}

#[test]
fn external_programs_accept_the_disks() {
    let scratch = Scratch::new();
    let system = talos("v1.13.6", Medium::Disk);
    let raw = scratch.file("a.raw", &system.disk(Arch::Amd64, Scale::Small).to_raw());
    if run("sgdisk", &["--verify", text(&raw)]).is_some() {
        let output = Command::new("sgdisk").args(["--print", text(&raw)]).output().unwrap();
        let print = String::from_utf8(output.stdout).unwrap();
        for name in ["EFI", "BIOS", "BOOT", "META"] {
            assert!(print.lines().any(|line| line.ends_with(name)), "{print}");
        }
        let output = Command::new("sgdisk").args(["--verify", text(&raw)]).output().unwrap();
        let verdict = String::from_utf8(output.stdout).unwrap();
        assert!(verdict.contains("No problems found"), "{verdict}");
    }
    let full = system.disk(Arch::Amd64, Scale::Full);
    let qcow2 = scratch.file("a.qcow2", &full.to_qcow2(13));
    run("qemu-img", &["check", text(&qcow2)]);
    let converted = scratch.path("b.qcow2");
    let args = ["convert", "-c", "-O", "qcow2", text(&raw), text(&converted)];
    if run("qemu-img", &args).is_some() {
        assert_eq!(System::read(&converted), Some(system));
    }
}
