//! The programs isoinfo and blkid can read the cidata volume.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::disallowed_methods, reason = "a variable marks CI")]

use std::io::Write as _;
use std::process::Command;

use talmox_talos_config::cidata::Cidata;
use talmox_talos_config::network::{FirstLink, FirstNetwork};
use talmox_talos_config::secret::SecretText;

/// Output of a program; `None` if the program is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn isoinfo_and_blkid_read_the_volume() {
    let user_data = SecretText::new("machine: {}\n".repeat(5000));
    let network = FirstNetwork {
        hostname: "talos-cp-01".to_owned(),
        links: vec![FirstLink {
            name: "eth0".to_owned(),
            addresses: vec!["10.0.0.11/16".parse().unwrap()],
            gateways: vec!["10.0.0.1".parse().unwrap()],
            ..FirstLink::default()
        }],
        ..FirstNetwork::default()
    };
    let volume = Cidata { user_data: &user_data, instance_id: "test", network: &network };
    let image = volume.image().unwrap();
    let path = std::env::temp_dir().join(format!("talmox-cidata-{}.iso", std::process::id()));
    std::fs::write(&path, image.as_bytes()).unwrap();
    let name = path.to_str().unwrap();

    let listing = output("isoinfo", &["-J", "-f", "-i", name]);
    let content = output("isoinfo", &["-J", "-x", "/user-data", "-i", name]);
    let label = output("blkid", &["-p", "-s", "LABEL", "-o", "value", name]);
    std::fs::remove_file(&path).unwrap();

    let (Some(listing), Some(content), Some(label)) = (listing, content, label) else {
        let missing =
            "SKIPPED: isoinfo or blkid is not installed, the cidata volume was not read\n";
        std::io::stderr().write_all(missing.as_bytes()).unwrap();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "this must run in CI");
        return;
    };
    let mut files: Vec<&str> = listing.lines().collect();
    files.sort_unstable();
    assert_eq!(files, ["/meta-data", "/network-config", "/user-data"]);
    assert_eq!(content, user_data.expose());
    assert_eq!(label.trim(), "cidata");
}
