//! The `.gitignore` file beside an inventory. It keeps client files and rendered configs out of Git.

use std::path::{Path, PathBuf};

use crate::disk::{self, Before, Readers, Staged};
use crate::error::CommandError;

const REASON: &str =
    "# Written by talmox: these files hold keys of clusters, or belong to this machine.\n";

/// Patterns of files that must not be committed.
const PATTERNS: [&str; 6] =
    ["kubeconfig", "talosconfig", "*.kubeconfig", "*.talosconfig", "generated/", ".talmox/"];

/// Appends missing patterns to the `.gitignore` of a folder. Existing lines are kept. Returns the path if the file was
/// written.
pub(crate) fn extend(folder: &Path) -> Result<Option<PathBuf>, CommandError> {
    let path = folder.join(".gitignore");
    disk::refuse_link(&path)?;
    let known = disk::read_secret(&path)?;
    let text = known.as_ref().map_or("", |text| text.expose());
    let missing: Vec<&str> =
        PATTERNS.into_iter().filter(|pattern| !has_pattern(text, pattern)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let added = format!("{text}{gap}{REASON}{}\n", missing.join("\n"));
    let before = known.as_ref().map_or(Before::Absent, |text| Before::Holds(text.expose()));
    Staged::new(&path, &added, Readers::Everybody)?.put(before)?;
    Ok(Some(path))
}

/// Whether a line already covers a pattern. A line that starts with `!` also counts, because the user chose to track the
/// file.
fn has_pattern(text: &str, pattern: &str) -> bool {
    let bare = |line: &str| {
        let line = line.trim_end();
        let line = line.strip_prefix('!').unwrap_or(line);
        line.trim_start_matches("**/").trim_matches('/').to_owned()
    };
    let wanted = bare(pattern);
    text.lines().any(|line| bare(line) == wanted)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn missing_lines_are_added_and_none_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".gitignore");
        let patterns = PATTERNS.join("\n");
        assert_eq!(extend(folder.path()).unwrap(), Some(path.clone()));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{REASON}{patterns}\n"));
        assert_eq!(extend(folder.path()).unwrap(), None);

        let own = "*.log  \n/generated\n!kubeconfig\n**/.talmox/";
        fs::write(&path, own).unwrap();
        extend(folder.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let added = format!("\n{REASON}talosconfig\n*.kubeconfig\n*.talosconfig\n");
        assert_eq!(text, format!("{own}{added}"));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine\n").unwrap();
        symlink(&victim, folder.path().join(".gitignore")).unwrap();
        assert!(extend(folder.path()).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    }
}
