//! Stubs of the Talos API, generated from the `.proto` files of this repository without `protoc`.
//! The stubs are checked in, so that a build of talmox does not need to generate them.

use std::fs;
use std::path::Path;

const PROTO: &str = "crates/talos-api/proto";
const STUBS: &str = "crates/talos-api/src/proto/generated";

/// `.proto` files that together import all other `.proto` files.
const ROOTS: &[&str] =
    &["cluster.proto", "cosi/resource.proto", "lifecycle.proto", "machine.proto", "storage.proto"];

/// Messages that may contain keys. Their `Debug` implementation is written by hand and does not show the keys.
const SECRET: &[&str] = &[
    "common.Data",
    "cosi.resource.Spec",
    "machine.ApplyConfiguration",
    "machine.ApplyConfigurationRequest",
    "machine.GenerateClientConfiguration",
    "machine.MetaWriteRequest",
];

/// Path and content of every stub.
pub(crate) fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let descriptors = protox::compile(ROOTS, [root.join(PROTO)])
        .map_err(|error| format!("{PROTO}: {error:?}"))?;
    let out = root.join("target/xtask-stubs");
    let made = made_in(&out, descriptors).map_err(|error| format!("stubs: {error}"));
    let removed = fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()));
    made.and_then(|files| removed.map(|()| files))
}

fn made_in(
    out: &Path,
    descriptors: protox::prost_reflect::prost_types::FileDescriptorSet,
) -> std::io::Result<Vec<(String, String)>> {
    fs::create_dir_all(out)?;
    tonic_prost_build::configure()
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .build_transport(false)
        .generate_default_stubs(true)
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .btree_map(".")
        .skip_debug(SECRET)
        .compile_fds(descriptors)?;
    let mut files = vec![];
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((format!("{STUBS}/{name}"), fs::read_to_string(entry.path())?));
    }
    files.sort();
    Ok(files)
}
