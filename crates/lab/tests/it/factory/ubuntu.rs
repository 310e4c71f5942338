use aws_lc_rs::digest;

use super::{get, send};
use crate::support::TestLab;

const HOST: &str = "cloud-images.ubuntu.com";

#[test]
fn ubuntu_images_and_checksums_are_served() {
    let lab = TestLab::new();
    let get_from = |path: &str| send(&lab, HOST, &format!("GET {path}"), "").unwrap();
    for (folder, file) in [
        ("/releases/24.04/release", "ubuntu-24.04-server-cloudimg-amd64.img"),
        ("/releases/noble/release", "ubuntu-24.04-server-cloudimg-amd64.img"),
        ("/noble/current", "noble-server-cloudimg-amd64.img"),
        ("/jammy/current", "jammy-server-cloudimg-arm64.img"),
    ] {
        let image = get_from(&format!("{folder}/{file}"));
        assert_eq!((image.status, &image.body[..4]), (200, &b"QFI\xfb"[..]), "{folder}");
        let sum = digest::digest(&digest::SHA256, &image.body);
        let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let sums = get_from(&format!("{folder}/SHA256SUMS")).text();
        assert!(sums.lines().any(|line| line == format!("{sum} *{file}")), "{sums}");
    }
    let noble = get_from("/noble/current/noble-server-cloudimg-amd64.img").body;
    assert_eq!(noble[24..32], (3584_u64 << 20).to_be_bytes());
    for path in [
        "/",
        "/noble/current/jammy-server-cloudimg-amd64.img",
        "/versions",
        "/24.04/current/SHA256SUMS",
    ] {
        assert_eq!(get_from(path).status, 404, "{path}");
    }
    assert_eq!(get(&lab, "/noble/current/SHA256SUMS").status, 404);
    lab.stop();
}
