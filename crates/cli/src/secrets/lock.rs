//! The lock that keeps two writers of one secrets file apart.
//!
//! Each writer reads the file, changes it and writes it again. Without the lock the second of two `secrets set` would
//! write back what it read before the first one was done, and a token would be lost.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::printer::Printer;

/// Its name in the folder for runs.
pub(super) const FILE: &str = "secrets.lock";

/// The lock, for as long as it is kept.
#[derive(Debug)]
pub(crate) struct SecretsLock {
    _file: File,
}

/// Takes the lock on the secrets of a cluster. A process that has it is waited for.
pub(crate) fn lock(chosen: &Chosen, printer: &Printer) -> Result<SecretsLock, CommandError> {
    let path = chosen.make_run_folder()?.join(FILE);
    disk::refuse_link(&path)?;
    take(&path, || {
        let secrets = chosen.secrets_path();
        printer.say(&format!("waiting: another talmox works on {}", secrets.display()));
    })
    .map_err(|error| failed(&path, error))
}

fn take(path: &Path, on_wait: impl FnOnce()) -> io::Result<SecretsLock> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            on_wait();
            file.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(SecretsLock { _file: file })
}

fn failed(path: &Path, error: io::Error) -> CommandError {
    CommandError::failed(CommandCode::FileUnwritable, format!("cannot lock {}", path.display()))
        .because(error)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path, || panic!("nobody has it")).unwrap();
        let (waits, waiting) = mpsc::channel();
        let second = thread::spawn(move || {
            let lock = take(&path, || waits.send("waits").unwrap()).unwrap();
            waits.send("has it").unwrap();
            drop(lock);
        });
        assert_eq!(waiting.recv(), Ok("waits"));
        assert!(waiting.try_recv().is_err(), "it got the lock while another had it");
        drop(first);
        assert_eq!(waiting.recv(), Ok("has it"));
        second.join().unwrap();
    }
}
