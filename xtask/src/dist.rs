//! The static binary that is handed out.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Problems;

/// Builds `target/dist/talmox`, linked statically against the C library of this machine. Naming the
/// target keeps the flags away from build scripts and procedural macros, which cannot be static.
pub(crate) fn build(root: &Path) -> Problems {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--profile",
            "dist",
            "--package",
            "talmox",
            "--target",
            &target,
        ])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(root)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return vec![format!("cargo build: {status}")],
        Err(error) => return vec![format!("cannot run cargo build: {error}")],
    }
    let built = root.join("target").join(&target).join("dist/talmox");
    let folder = root.join("target/dist");
    let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&built, folder.join("talmox")));
    match copied {
        Ok(bytes) => {
            println!("target/dist/talmox: {} kB", bytes / 1000);
            vec![]
        }
        Err(error) => vec![format!("{}: {error}", built.display())],
    }
}
