//! Build of the static binary for releases.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Problems;

/// Maximum size of the binary in bytes.
const MAX_BYTES: u64 = 40_000_000;

/// Builds `dist/talmox` in the target directory. The binary is linked statically against the C library of this machine.
/// The build names an explicit target, so that the flags do not apply to build scripts and procedural macros, which
/// cannot be static.
#[expect(clippy::disallowed_methods, reason = "cargo's own variable, for a tool of developers")]
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
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let built = folder.join(&target).join("dist/talmox");
    let folder = folder.join("dist");
    let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&built, folder.join("talmox")));
    match copied {
        Ok(bytes) => {
            println!("{}: {} kB", folder.join("talmox").display(), bytes / 1000);
            let is_larger = bytes > MAX_BYTES;
            is_larger
                .then(|| format!("the binary is larger than {} kB", MAX_BYTES / 1000))
                .into_iter()
                .collect()
        }
        Err(error) => vec![format!("{}: {error}", built.display())],
    }
}
