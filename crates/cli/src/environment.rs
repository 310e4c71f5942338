//! Access to the environment of the process: variables, home folder, clock, randomness. All other code of the CLI uses
//! these functions.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::SystemTime;

use talmox_talos_config::random::{Randomness, SystemRandomness};
use talmox_talos_config::time::UnixTime;

/// Value of an environment variable. The value may be empty.
pub(crate) fn raw(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
    env::var_os(name)
}

/// Value of an environment variable. `None` if the variable is empty or not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// Path in an environment variable. `None` if the variable is empty or not set.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    raw(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

pub(crate) fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Folder for the settings of programs. The rules are those of sops.
pub(crate) fn config_folder() -> Option<PathBuf> {
    let given = path("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    given.or_else(|| Some(home()?.join(usual)))
}

/// Folder for stored choices of the user (`$XDG_STATE_HOME`).
pub(crate) fn state_folder() -> Option<PathBuf> {
    let given = path("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
    given.or_else(|| Some(home()?.join(".local/state")))
}

/// Folder for files that can be downloaded again (`$XDG_CACHE_HOME`).
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let given = path("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    given.or_else(|| Some(home()?.join(".cache")))
}

pub(crate) fn now() -> UnixTime {
    #[expect(clippy::disallowed_methods, reason = "certificates need the real time, never a lab's")]
    SystemTime::now().into()
}

/// Source of random bytes from the kernel. The generator of the cryptographic library is not used, because it collects
/// entropy first. That takes ten times as long as the rest of a short command.
#[derive(Debug)]
pub(crate) struct Kernel;

impl Randomness for Kernel {
    fn fill(&mut self, bytes: &mut [u8]) {
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(bytes));
        if read.is_err() {
            SystemRandomness::new().fill(bytes);
        }
    }
}
