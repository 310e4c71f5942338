//! Reading of files whose paths come from an inventory. Only regular files up to a maximum size are read.
//!
//! In an untrusted checkout, a path can be a dangerous link. A link to a pipe blocks forever, a link to `/dev/zero` is
//! endless, and files in `/proc` expose the memory of this process.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Maximum size of an inventory file and of a file that an inventory names, in bytes.
pub(crate) const LARGEST: u64 = 4 << 20;

/// Maximum size of a file of the user, such as a kubeconfig with many clusters, in bytes.
pub(crate) const LARGEST_OWN: u64 = 16 << 20;

/// Reason why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("no such file")]
    Missing,
    #[error("a link to a missing file")]
    Dangling,
    #[error("permission denied")]
    Denied,
    #[error("a folder, not a file")]
    Folder,
    #[error("not a regular file")]
    NotRegular,
    #[error("a kernel file, not a regular file")]
    Kernel,
    #[error("larger than {} MiB; is this the right file?", .0 >> 20)]
    TooLarge(u64),
    #[error(transparent)]
    Io(io::Error),
}

impl ReadError {
    /// Converts an error of the operating system for this path.
    pub(crate) fn of(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound if path.symlink_metadata().is_ok() => Self::Dangling,
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Io(error),
        }
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let failed = |error| ReadError::of(path, error);
    // The type of the file is checked before the file is opened, because opening some devices has an effect.
    refuse_irregular(&fs::metadata(path).map_err(failed)?)?;
    // If the file is replaced by a pipe after the check, NONBLOCK keeps the open from blocking.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(|error| failed(error.into()))?);
    let known = file.metadata().map_err(failed)?;
    refuse_irregular(&known)?;
    refuse_kernel_file(&file)?;
    take(file, known.len(), limit, path)
}

/// Reads a file of at most `limit` bytes whose path is an argument of the command line. The file may be a pipe, as in
/// `talmox secrets import <(…)`.
pub(crate) fn read_argument(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let file = File::open(path).map_err(|error| ReadError::of(path, error))?;
    take(file, 0, limit, path)
}

/// Reads a file whose path is an argument of the command line, as UTF-8 text.
pub(crate) fn read_text_argument(path: &Path) -> Result<String, ReadError> {
    let bytes = read_argument(path, LARGEST_OWN)?;
    String::from_utf8(bytes).map_err(|error| ReadError::Io(io::Error::other(error)))
}

fn take(file: File, expected: u64, limit: u64, path: &Path) -> Result<Vec<u8>, ReadError> {
    // The buffer is allocated in full size, because a growing buffer would leave copies of a secret in freed memory.
    let expected = usize::try_from(expected.min(limit)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(expected + 1);
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    let length = read.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => ReadError::Folder,
        _ => ReadError::of(path, error),
    })?;
    if length as u64 > limit {
        return Err(ReadError::TooLarge(limit));
    }
    Ok(bytes)
}

fn refuse_irregular(known: &Metadata) -> Result<(), ReadError> {
    if known.is_dir() {
        return Err(ReadError::Folder);
    }
    if known.is_file() { Ok(()) } else { Err(ReadError::NotRegular) }
}

/// Rejects files in `/proc` and `/sys`. Their metadata looks like that of regular files.
#[cfg(target_os = "linux")]
fn refuse_kernel_file(file: &File) -> Result<(), ReadError> {
    const SYSFS_MAGIC: rustix::fs::FsWord = 0x6265_6572;
    let found = rustix::fs::fstatfs(file).map_err(|error| ReadError::Io(error.into()))?;
    if [rustix::fs::PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&found.f_type) {
        return Err(ReadError::Kernel);
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn refuse_kernel_file(_: &File) -> Result<(), ReadError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    fn rejected(path: &Path) -> String {
        read(path, 10).unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "0123456789").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert_eq!(read(&at("link"), 10).unwrap(), b"0123456789");
        assert_eq!(rejected(folder.path()), "a folder, not a file");
        assert_eq!(rejected(&at("none")), "no such file");
        symlink(at("none"), at("dangling")).unwrap();
        assert_eq!(rejected(&at("dangling")), "a link to a missing file");
        symlink("/dev/zero", at("zero")).unwrap();
        assert_eq!(rejected(&at("zero")), "not a regular file");
        let made = Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        assert_eq!(rejected(&at("pipe")), "not a regular file");
        fs::write(at("file"), "0123456789a").unwrap();
        assert_eq!(rejected(&at("file")), "larger than 0 MiB; is this the right file?");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn kernel_files_are_rejected() {
        let rejected = read(Path::new("/proc/self/environ"), LARGEST).unwrap_err();
        assert_eq!(rejected.to_string(), "a kernel file, not a regular file");
    }

    #[test]
    fn an_argument_may_be_a_stream_up_to_the_limit() {
        assert_eq!(read_argument(Path::new("/dev/null"), 10).unwrap(), b"");
        let rejected = read_argument(Path::new("/dev/zero"), 10).unwrap_err();
        assert!(matches!(rejected, ReadError::TooLarge(10)), "{rejected}");
        let rejected = read_argument(Path::new("/"), 10).unwrap_err();
        assert!(matches!(rejected, ReadError::Folder), "{rejected}");
    }
}
