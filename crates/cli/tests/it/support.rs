//! Runs the program in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

/// What a run printed, and how it ended.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    /// `args` are separated by blanks.
    pub(crate) fn talmox(&self, args: &str) -> Run {
        let output =
            talmox().current_dir(self.path()).args(args.split_whitespace()).output().unwrap();
        Run {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }
}

pub(crate) fn talmox() -> Command {
    Command::new(env!("CARGO_BIN_EXE_talmox"))
}

/// The folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says that a test did not run. Straight to stderr: what a passing test prints is captured.
pub(crate) fn skipped(why: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("{why}\n").as_bytes()).unwrap();
}
