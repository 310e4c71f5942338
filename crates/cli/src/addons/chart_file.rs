//! Files of charts: digests, and the cache of downloaded charts.

use std::fs;
use std::path::{Path, PathBuf};

use talmox_plan::sha256::sha256_hex;

use crate::boundary::Boundary;
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::regular_file::{self, LARGEST_OWN};

/// Maximum depth of the folders of a chart.
const DEEPEST: usize = 16;

/// Digest of a chart or kustomize folder in the inventory. Every file must be inside the boundary: a link to a private file
/// could put its content into a manifest.
pub(super) fn digest(path: &Path, boundary: &Boundary) -> Result<String, CommandError> {
    let mut lines = vec![];
    add(path, "", boundary, 0, &mut lines)?;
    Ok(sha256_hex(lines.concat().as_bytes()))
}

fn add(
    path: &Path,
    name: &str,
    boundary: &Boundary,
    depth: usize,
    lines: &mut Vec<String>,
) -> Result<(), CommandError> {
    let failed = || {
        let message = format!("cannot read {}", path.display());
        CommandError::failed(CommandCode::FileUnreadable, message)
    };
    let real = boundary.admit(path).map_err(|error| failed().because(error))?;
    if !real.is_dir() {
        let bytes = regular_file::read(&real, LARGEST_OWN);
        let bytes = bytes.map_err(|error| failed().because(error))?;
        lines.push(format!("{} {name}\n", sha256_hex(&bytes)));
        return Ok(());
    }
    if depth > DEEPEST {
        return Err(failed().hint("the folder is nested too deeply; check it for links to itself"));
    }
    let mut entries = vec![];
    for entry in fs::read_dir(&real).map_err(|error| failed().because(error))? {
        let entry = entry.map_err(|error| failed().because(error))?;
        entries.push(entry.file_name().to_string_lossy().into_owned());
    }
    entries.sort();
    for entry in entries {
        add(&path.join(&entry), &format!("{name}/{entry}"), boundary, depth + 1, lines)?;
    }
    Ok(())
}

/// Path of a downloaded chart in the cache. None if the user has no cache folder.
fn cached_path(sha256: &str) -> Option<PathBuf> {
    let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = environment::cache_folder().filter(|_| is_digest)?;
    Some(folder.join("talmox/charts").join(format!("{sha256}.tgz")))
}

/// Downloaded chart with this digest. None if the cache does not have it.
pub(super) fn cached(sha256: &str) -> Option<Vec<u8>> {
    let bytes = regular_file::read(&cached_path(sha256)?, LARGEST_OWN).ok()?;
    (sha256_hex(&bytes) == sha256).then_some(bytes)
}

/// Stores a downloaded chart in the cache. An error is ignored, because the chart can be downloaded again.
pub(super) fn store(sha256: &str, bytes: &[u8]) {
    let Some(path) = cached_path(sha256) else { return };
    let Some(folder) = path.parent() else { return };
    // A chart that is written only in part has another digest, and is ignored.
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes)).ok();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_digest_covers_names_and_contents_and_links_must_stay_inside() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("inside/chart/templates")).unwrap();
        fs::write(at("private"), "hunter2").unwrap();
        fs::write(at("inside/chart/Chart.yaml"), "name: shop").unwrap();
        fs::write(at("inside/chart/templates/a.yaml"), "a: 1").unwrap();
        let boundary = Boundary::around(&at("inside"), &[]);
        let digest = || digest(&at("inside/chart"), &boundary).map_err(|error| error.chain());
        let first = digest().unwrap();
        assert_eq!(digest(), Ok(first.clone()));
        fs::rename(at("inside/chart/templates/a.yaml"), at("inside/chart/templates/b.yaml"))
            .unwrap();
        let second = digest().unwrap();
        assert_ne!(first, second);
        fs::write(at("inside/chart/templates/b.yaml"), "a: 2").unwrap();
        assert_ne!(digest().unwrap(), second);
        symlink(at("private"), at("inside/chart/link")).unwrap();
        assert!(digest().unwrap_err().contains("is outside"));
    }
}
