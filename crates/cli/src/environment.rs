//! What the program takes from around it: variables, the home folder, the clock, randomness.
//! Everything else asks here.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::SystemTime;

use talmox_talos_config::random::{Randomness, SystemRandomness};
use talmox_talos_config::time::UnixTime;

/// A variable as it is, also an empty one.
pub(crate) fn raw(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
    env::var_os(name)
}

/// A variable that says something. An empty one is as good as none.
pub(crate) fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// A variable that names a file or folder.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    raw(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

pub(crate) fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Where programs keep their settings, as sops finds it.
pub(crate) fn config_folder() -> Option<PathBuf> {
    let given = path("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    given.or_else(|| Some(home()?.join(usual)))
}

/// Where programs keep what they remember of the user's choices.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let given = path("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
    given.or_else(|| Some(home()?.join(".local/state")))
}

pub(crate) fn now() -> UnixTime {
    #[expect(clippy::disallowed_methods, reason = "certificates need the real time, never a lab's")]
    SystemTime::now().into()
}

/// The kernel's randomness as it is. The cryptographic library gathers some of its own first, which
/// takes ten times as long as all the rest of a quick command.
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
