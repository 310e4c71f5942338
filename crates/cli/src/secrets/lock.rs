//! Lock that keeps two processes from changing a secrets file at the same time.
//!
//! Each process reads the file, changes the content and writes the file. Without the lock, one of two concurrent `secrets
//! set` could overwrite the change of the other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;
use crate::printer::Printer;

/// File name of the lock in the run folder.
pub(super) const FILE: &str = "secrets.lock";

/// Held lock on the secrets file of a cluster.
#[derive(Debug)]
pub(crate) struct SecretsLock {
    _file: File,
}

/// Takes the lock on the secrets file of a cluster. Waits while another process holds the lock.
pub(crate) fn lock(chosen: &Chosen, printer: &Printer) -> Result<SecretsLock, CommandError> {
    let path = chosen.make_run_folder()?.join(FILE);
    disk::refuse_link(&path)?;
    take(&path, || {
        let secrets = chosen.secrets_path();
        printer
            .say(&format!("waiting for another talmox process that changes {}", secrets.display()));
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
    fn a_second_writer_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path, || panic!("the lock is free")).unwrap();
        let (waits, waiting) = mpsc::channel();
        let second = thread::spawn(move || {
            let lock = take(&path, || waits.send("waits").unwrap()).unwrap();
            waits.send("has it").unwrap();
            drop(lock);
        });
        assert_eq!(waiting.recv(), Ok("waits"));
        assert!(waiting.try_recv().is_err(), "two writers hold the lock");
        drop(first);
        assert_eq!(waiting.recv(), Ok("has it"));
        second.join().unwrap();
    }
}
