//! Ubuntu cloud images, and the server that provides them.

use aws_lc_rs::digest::{SHA256, digest};

use super::answer::HttpAnswer;
use crate::image::{Arch, Scale, System, UbuntuImage};

pub(super) const HOST: &str = "cloud-images.ubuntu.com";
/// Default cluster size of `qemu-img`: 64 KiB.
const CLUSTER_BITS: u32 = 16;
const SUMS: &str = "SHA256SUMS";

/// Ubuntu releases and their code names.
const RELEASES: [(&str, &str); 2] = [("22.04", "jammy"), ("24.04", "noble")];
const ARCHES: [(Arch, &str); 2] = [(Arch::Amd64, "amd64"), (Arch::Arm64, "arm64")];

/// Answers requests such as `/noble/current/noble-server-cloudimg-amd64.img` and
/// `/releases/24.04/release/ubuntu-24.04-server-cloudimg-amd64.img`. Both folders also contain `SHA256SUMS`.
pub(super) fn answer(path: &str) -> HttpAnswer {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let release =
        |name: &str| RELEASES.iter().find(|(number, code)| *number == name || *code == name);
    let found = match parts[..] {
        ["releases", name, "release", file] => {
            release(name).map(|it| (it, format!("ubuntu-{}", it.0), file))
        }
        [name, "current", file] => {
            release(name).filter(|it| it.1 == name).map(|it| (it, it.1.to_owned(), file))
        }
        _ => None,
    };
    let Some(((number, code), stem, file)) = found else { return not_found() };
    let system =
        System::Ubuntu(UbuntuImage { release: (*number).to_owned(), codename: (*code).to_owned() });
    let image = |arch| system.disk(arch, Scale::Full).to_qcow2(CLUSTER_BITS);
    let name = |arch: &str| format!("{stem}-server-cloudimg-{arch}.img");
    if file == SUMS {
        let line = |(kind, arch)| {
            let sum = digest(&SHA256, &image(kind));
            let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{sum} *{}\n", name(arch))
        };
        return HttpAnswer::new(200, "text/plain", ARCHES.map(line).concat());
    }
    match ARCHES.iter().find(|(_, arch)| name(arch) == file) {
        Some((arch, _)) => HttpAnswer::new(200, "application/octet-stream", image(*arch)),
        None => not_found(),
    }
}

fn not_found() -> HttpAnswer {
    HttpAnswer::error(404, "Not Found")
}
