use talmox_lab::Settings;
use talmox_lab::pve::Profile;

use super::{AGENT, AGENT_YAML, EMPTY, FACTORY, get, post, send, status_and_text};
use crate::support::{TestLab, settings};

#[test]
fn factory_files_match_their_names() {
    let lab = TestLab::new();
    post(&lab, AGENT_YAML);
    let cases: [(&str, &str, usize, &[u8]); 7] = [
        ("nocloud-amd64.qcow2", "application/x-qemu-disk", 0, b"QFI\xfb\0\0\0\x03"),
        ("nocloud-amd64.raw", "application/octet-stream", 512, b"EFI PART"),
        ("metal-amd64.raw.zst", "application/octet-stream", 0, b"\x28\xb5\x2f\xfd"),
        ("nocloud-amd64.raw.xz", "application/x-xz", 0, b"\xfd7zXZ\0"),
        ("nocloud-amd64.raw.gz", "application/gzip", 0, b"\x1f\x8b"),
        ("metal-arm64-secureboot.qcow2.zst", "application/octet-stream", 0, b"\x28\xb5\x2f\xfd"),
        ("nocloud-amd64.iso", "application/x-iso9660-image", 0x8001, b"CD001"),
    ];
    for (file, content_type, at, magic) in cases {
        let path = format!("/image/{AGENT}/v1.13.6/{file}");
        let answer = get(&lab, &path);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.header("Content-Type"), Some(content_type), "{file}");
        assert_eq!(answer.body[at..at + magic.len()], *magic, "{file}");
        let named = format!("attachment; filename=\"{file}\"");
        assert_eq!(answer.header("Content-Disposition"), Some(named.as_str()));
        let head = send(&lab, FACTORY, &format!("HEAD {path}"), "").unwrap();
        assert_eq!(head.header("Content-Length"), Some(answer.body.len().to_string().as_str()));
        assert!(get(&lab, &path).body == answer.body, "{file} is the same every time");
    }
    let qcow2 = get(&lab, &format!("/image/{AGENT}/1.13.6/nocloud-amd64.qcow2?filename=a.qcow2"));
    assert_eq!(qcow2.body[20..24], 13_u32.to_be_bytes(), "clusters of 8 KiB");
    assert_eq!(qcow2.body[24..32], 4_453_302_272_u64.to_be_bytes());
    assert_eq!(qcow2.header("Content-Disposition"), Some("attachment; filename=\"a.qcow2\""));
    assert_eq!(
        &get(&lab, &format!("/image/{AGENT}/v1.13.6/metal-amd64.iso")).body[0x8028..][..14],
        b"TALOS_V1_13_6 "
    );
    lab.stop();
}

#[test]
fn range_requests_are_supported() {
    let lab = TestLab::new();
    post(&lab, AGENT_YAML);
    let path = format!("/image/{AGENT}/v1.12.7/nocloud-amd64.qcow2");
    let whole = get(&lab, &path).body;
    let part = |range: &str| {
        send(&lab, FACTORY, &format!("GET {path}\r\nRange: bytes={range}"), "").unwrap()
    };
    let answer = part("100-199");
    assert_eq!((answer.status, &answer.body[..]), (206, &whole[100..200]));
    let range = format!("bytes 100-199/{}", whole.len());
    assert_eq!(answer.header("Content-Range"), Some(range.as_str()));
    assert_eq!(part("-10").body, whole[whole.len() - 10..]);
    assert_eq!(part("99999999-").status, 416);
    lab.stop();
}

#[test]
fn invalid_images_are_rejected_like_by_the_factory() {
    let lab = TestLab::new();
    let file = "nocloud-amd64.qcow2";
    let answer = |id: &str, version: &str, file: &str| {
        status_and_text(&get(&lab, &format!("/image/{id}/{version}/{file}")))
    };
    assert_eq!(
        answer(EMPTY, "v1.13.6", file),
        (404, format!("schematic ID \"{EMPTY}\" not found")),
        "not before it was posted"
    );
    assert_eq!(
        answer(EMPTY, "v1.13.6", &format!("{file}.sha256")),
        (402, "enterprise not enabled: checksum endpoint is not available".into())
    );
    assert_eq!(answer(EMPTY, "v1.13.6", &format!("{file}.sigstore.json")).0, 402);
    post(&lab, "{}");
    assert_eq!(answer(EMPTY, "v1.13", file), (500, "internal server error".into()));
    assert_eq!(answer(EMPTY, "v1.13.99", file), (404, "version 1.13.99 is not available".into()));
    assert_eq!(answer(EMPTY, "v1.13.6", "nocloud-amd64.iso.gz").0, 400);
    assert_eq!(answer(EMPTY, "v1.13.6", "aws-amd64.raw").0, 501);

    let with = |name: &str| {
        let yaml = format!("customization: {{systemExtensions: {{officialExtensions: [{name}]}}}}");
        post(&lab, &yaml).json()["id"].as_str().unwrap().to_owned()
    };
    let netbird = with("siderolabs/netbird");
    assert_eq!(
        answer(&netbird, "v1.11.6", file),
        (
            400,
            "error enhancing profile from schematic: official extension \"siderolabs/netbird\" is \
             not available for Talos version v1.11.6"
                .into()
        )
    );
    let path = format!("/image/{netbird}/v1.12.0/{file}");
    assert_eq!(get(&lab, &path).status, 200);
    let old = with("siderolabs/nvidia-container-toolkit");
    assert_eq!(get(&lab, &format!("/image/{old}/v1.11.6/{file}")).status, 200);
    let yaml = "customization: {embeddedMachineConfiguration: \"version: v1alpha1\"}";
    let embedded = post(&lab, yaml).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer(&embedded, "v1.11.6", file).0, 400);
    assert_eq!(get(&lab, &format!("/image/{embedded}/v1.12.0/{file}")).status, 200);
    lab.stop();
}

#[test]
fn factory_metadata_files_are_served() {
    let lab = TestLab::new();
    let id = post(&lab, "customization: {extraKernelArgs: [quiet]}").json()["id"].clone();
    let id = id.as_str().unwrap();
    let arguments = get(&lab, &format!("/image/{id}/v1.13.6/cmdline-nocloud-amd64")).text();
    assert!(arguments.starts_with("talos.platform=nocloud "), "{arguments}");
    assert!(arguments.ends_with(" quiet"), "{arguments}");
    let script = get(&lab, &format!("/pxe/{id}/v1.13.6/nocloud-amd64")).text();
    let base = format!("https://factory.talos.dev/image/{id}/v1.13.6");
    assert!(script.contains(&format!("kernel {base}/kernel-amd64 {arguments}\n")), "{script}");
    assert_eq!(get(&lab, "/pxe/none/v1.13.6/nocloud-amd64").status, 404);
    let list = get(&lab, "/talosctl/v1.13.6").json();
    let linux = "https://factory.talos.dev/talosctl/v1.13.6/talosctl-linux-amd64";
    assert!(list.as_array().unwrap().iter().any(|url| url == linux), "{list}");
    for (path, label) in [
        ("/secureboot/signing-cert.pem", "CERTIFICATE"),
        ("/oci/cosign/signing-key.pub", "PUBLIC KEY"),
    ] {
        let answer = get(&lab, path);
        assert_eq!(answer.header("Content-Type"), Some("application/x-pem-file"));
        assert!(answer.text().starts_with(&format!("-----BEGIN {label}-----\n")), "{path}");
    }
    lab.stop();
}

#[test]
fn only_the_first_build_is_slow() {
    let lab = TestLab::start(Settings { profile: Profile::Slow, speed: 30.0, ..settings() });
    post(&lab, "{}");
    let seconds = || {
        let clock = lab.lab().clock();
        let before = clock.since_epoch();
        let path = format!("/image/{EMPTY}/v1.13.6/nocloud-amd64.qcow2");
        assert_eq!(send(&lab, FACTORY, &format!("HEAD {path}"), "").unwrap().status, 200);
        clock.since_epoch().saturating_sub(before).as_secs()
    };
    let first = seconds();
    assert!(first >= 29, "{first} s");
    let second = seconds();
    assert!(second < 29, "{second} s");
    lab.stop();
}
