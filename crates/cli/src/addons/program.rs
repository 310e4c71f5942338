//! Programs that make manifests: `helm`, `kustomize` and `kubectl`.
//!
//! A program gets no variable of the user except for PATH and the proxy settings. Its home, its settings and its caches are in a
//! private folder that is removed afterwards, so the result depends only on the inventory.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::disk::PrivateFolder;
use crate::environment;
use crate::error::CommandError;

/// Maximum size of the output of a program, in bytes.
const LARGEST: u64 = 64 << 20;

/// Number of characters at the end of the error output that are shown.
const SHOWN: usize = 600;

/// Variables that a program with network access gets.
const NETWORK: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Proxy that accepts no connection. It keeps a program from using the network by mistake.
const NO_PROXY: &str = "http://127.0.0.1:9";

/// Whether a program may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkUse {
    Allowed,
    Blocked,
}

/// Path of a program: the value of `variable`, or else the first match on PATH.
pub(super) fn find(name: &str, variable: Option<&str>) -> Option<PathBuf> {
    if let Some(path) = variable.and_then(environment::path) {
        return Some(path);
    }
    let folders = environment::raw("PATH")?;
    // A relative entry would let the author of an inventory choose the program.
    let folders = env::split_paths(&folders).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Private folder with the home, the settings and the caches of a program.
pub(super) fn workplace() -> Result<PrivateFolder, CommandError> {
    let parent = env::temp_dir();
    let made = PrivateFolder::new(&parent).and_then(|folder| {
        for name in ["home", "cache", "config", "data", "tmp"] {
            folder.make_folder(name)?;
        }
        Ok(folder)
    });
    made.map_err(|error| {
        let message = format!("cannot create a folder in {}", parent.display());
        CommandError::failed(CommandCode::FileUnwritable, message).because(error)
    })
}

/// Runs a program and returns its output as text. `doing` is the operation for messages.
pub(super) fn run(
    program: &Path,
    arguments: &[OsString],
    workplace: &PrivateFolder,
    network: NetworkUse,
    limit: Duration,
    doing: &str,
) -> Result<String, CommandError> {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let failed = |what: String| {
        let message = format!("{doing}: {name} {what}");
        CommandError::failed(CommandCode::AddonProgramFailed, message)
    };
    let at = |folder: &str| workplace.path().join(folder);
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir(workplace.path());
    command.envs(environment::raw("PATH").map(|path| ("PATH", path)));
    for (variable, folder) in [
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
    ] {
        command.env(variable, at(folder));
    }
    match network {
        NetworkUse::Allowed => {
            command.envs(NETWORK.iter().filter_map(|name| Some((*name, environment::raw(name)?))));
        }
        NetworkUse::Blocked => {
            command.env("HTTP_PROXY", NO_PROXY).env("HTTPS_PROXY", NO_PROXY);
            // kustomize runs git for bases on the network.
            command.env("GIT_ALLOW_PROTOCOL", "none");
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| failed("cannot be run".to_owned()).because(error))?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let Some((out, err)) = output(&out, &err, limit) else {
        end(&mut child);
        let hint = "check the network, then run the same command again";
        return Err(failed(format!("did not end within {} s", limit.as_secs())).hint(hint));
    };
    let status = child.wait().map_err(|error| failed("cannot be run".to_owned()).because(error))?;
    if !status.success() {
        return Err(failed(format!("failed ({status}): {}", tail(&err))));
    }
    let out = out.map_err(|error| failed("printed too much".to_owned()).because(error))?;
    String::from_utf8(out).map_err(|_| failed("did not print text".to_owned()))
}

type Bytes = io::Result<Vec<u8>>;

/// Thread that reads a stream of a program to its end.
fn reader(stream: Option<impl Read + Send + 'static>) -> Receiver<Bytes> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![];
        let read = match stream {
            Some(stream) => stream.take(LARGEST + 1).read_to_end(&mut bytes),
            None => Ok(0),
        };
        let result = match read {
            Ok(count) if count as u64 > LARGEST => Err(io::Error::other("more than 64 MiB")),
            Ok(_) => Ok(bytes),
            Err(error) => Err(error),
        };
        // The receiver is gone after a timeout.
        send.send(result).ok();
    });
    receive
}

/// Both streams of a program. None if one of them did not end in time.
fn output(out: &Receiver<Bytes>, err: &Receiver<Bytes>, limit: Duration) -> Option<(Bytes, Bytes)> {
    let within = |stream: &Receiver<Bytes>| match stream.recv_timeout(limit) {
        Ok(bytes) => Some(bytes),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(io::Error::other("cannot be read"))),
    };
    Some((within(out)?, within(err)?))
}

fn end(child: &mut Child) {
    // The process may have ended in the meantime.
    child.kill().ok();
    child.wait().ok();
}

/// End of the error output, in one line.
fn tail(err: &Bytes) -> String {
    let text = match err {
        Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Err(error) => error.to_string(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let skipped = line.chars().count().saturating_sub(SHOWN);
    let shown: String = line.chars().skip(skipped).collect();
    if skipped > 0 { format!("…{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, CommandError> {
        let workplace = workplace().unwrap();
        let arguments: [OsString; 2] = ["-c".into(), script.into()];
        run(Path::new("/bin/sh"), &arguments, &workplace, NetworkUse::Blocked, limit, "add-on shop")
    }

    #[test]
    fn a_program_gets_a_private_home_and_no_other_variables() {
        let minute = Duration::from_mins(1);
        let shown = shell("env | cut -d= -f1 | sort | tr '\\n' ' '", minute).unwrap();
        assert!(!shown.contains("CARGO"), "{shown}");
        let home = shell("echo $HOME; ls -A $HOME", minute).unwrap();
        assert!(home.trim().ends_with("/home"), "{home}");
        assert!(!Path::new(home.trim()).exists(), "the folder is removed");
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_an_error() {
        let minute = Duration::from_mins(1);
        let failed = shell("echo first; echo 'no such chart' >&2; exit 3", minute).unwrap_err();
        assert_eq!(failed.chain(), "add-on shop: sh failed (exit status: 3): no such chart");
        let slow = shell("exec sleep 60", Duration::from_millis(200)).unwrap_err();
        assert_eq!(slow.chain(), "add-on shop: sh did not end within 0 s");
    }
}
