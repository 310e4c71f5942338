//! Consent to run a command that an inventory names.
//!
//! Without this consent, the author of an inventory could run programs as every user who runs `talmox plan`. The consent
//! is stored in the state folder of the user. It is never stored in the repository, because the author of the inventory
//! controls the repository.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use talmox_model::value::SecretCommand;

use crate::choose::Chosen;
use crate::confirm;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::regular_file::{self, ReadError};

/// Environment variables that every command gets. Other variables are passed only if the reference in the inventory
/// lists them.
pub(crate) const VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// Whether talmox may ask the user for consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsentMode {
    /// Ask on a terminal, once for each command of an inventory.
    AskOnce,
    /// Run only commands that were allowed before.
    NeverAsk,
}

/// Whether a command may run. It may run with `--allow-commands`, with a stored consent, or if the user consents now.
pub(crate) fn may_run(
    command: &SecretCommand,
    setting: &str,
    chosen: &Chosen,
    mode: ConsentMode,
    printer: &Printer,
) -> Result<bool, CommandError> {
    if chosen.allows_commands() {
        return Ok(true);
    }
    let record = record(command, chosen);
    if record.as_deref().is_some_and(is_remembered) {
        return Ok(true);
    }
    let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
    if mode == ConsentMode::NeverAsk || !is_person {
        return Ok(false);
    }
    let file = chosen.file().display();
    printer.say_always(&format!("{file} names a command to run on this machine, for {setting}:"));
    printer.say_always(&format!("  {}", shown(command)));
    printer.say_always(&format!(
        "  with these environment variables: {}",
        variables(command).join(", ")
    ));
    let question = "Run this command, now and each time this inventory names the same command?";
    if !confirm::is_yes(question)? {
        return Ok(false);
    }
    if let Some(path) = record {
        let text = format!("{file}\n{}\n", shown(command));
        if let Err(error) = disk::write_private(&path, &text, Before::Anything) {
            printer.warn(&format!("the answer could not be stored: {}", error.chain()));
        }
    }
    Ok(true)
}

/// Words of a command in quotes, with control characters escaped.
pub(crate) fn shown(command: &SecretCommand) -> String {
    format!("{:?}", command.words)
}

/// Names of the environment variables that a command gets.
pub(crate) fn variables(command: &SecretCommand) -> Vec<&str> {
    let named = command.env.iter().map(String::as_str);
    VARIABLES.into_iter().chain(named.filter(|name| !VARIABLES.contains(name))).collect()
}

/// Path of the file that stores the consent to a command of this inventory. `None` if there is no home folder. Also
/// `None` if a file that the command names cannot be read, because talmox could not detect changes of that file.
fn record(command: &SecretCommand, chosen: &Chosen) -> Option<PathBuf> {
    let file = chosen.file();
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = key(command, &file, chosen.folder())?;
    Some(environment::state_folder()?.join("talmox/allowed-commands").join(name))
}

/// Checksum of everything that the consent covers: the inventory, the words, the variables, and the content of each file
/// that a word names, as in `[sh, ./vault.sh]`. If a file changes, for example by `git pull`, the user must consent
/// again. `None` if a file cannot be read.
fn key(command: &SecretCommand, file: &Path, folder: &Path) -> Option<String> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    add(b"talmox command 2");
    add(file.as_os_str().as_encoded_bytes());
    add(&command.words.len().to_be_bytes());
    command.words.iter().for_each(|word| add(word.as_bytes()));
    add(&command.env.len().to_be_bytes());
    command.env.iter().for_each(|name| add(name.as_bytes()));
    for path in named_paths(&command.words, folder) {
        // A missing file and an empty file have different checksums.
        let Some(found) = path.metadata().ok().filter(fs::Metadata::is_file) else {
            add(b"no file");
            continue;
        };
        match regular_file::read(&path, regular_file::LARGEST_OWN) {
            Ok(text) => {
                add(b"file");
                add(&text);
            }
            // The file is a large program. Every change of the file sets its ctime, and no user can set the ctime to a
            // chosen value.
            Err(ReadError::TooLarge(_)) => {
                add(b"large file");
                add(identity(&found).as_bytes());
            }
            Err(_) => return None,
        }
    }
    Some(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Text about a file that differs after every change of the content.
fn identity(found: &fs::Metadata) -> String {
    let (device, inode, length) = (found.dev(), found.ino(), found.len());
    format!("{device} {inode} {length} {}.{:09}", found.ctime(), found.ctime_nsec())
}

/// Paths that the words of a command may name, relative to the folder that the command runs in. These are each word, and
/// the value of each option (`--config=FILE`). A program without a slash is not included: it is found in the user's PATH,
/// which the author of an inventory does not control.
fn named_paths(words: &[String], folder: &Path) -> Vec<PathBuf> {
    let program = words.iter().take(1).filter(|program| program.contains('/'));
    let arguments = words.iter().skip(1);
    let named = program.chain(arguments).map(String::as_str);
    let values = words.iter().skip(1).filter_map(|word| Some(word.split_once('=')?.1));
    named.chain(values).map(|path| folder.join(path)).collect()
}

/// Whether the consent is stored. A file that belongs to another user does not count.
fn is_remembered(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.uid() == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_covers_one_command_of_one_inventory() {
        let folder = tempfile::tempdir().unwrap();
        let command = |words: &[&str], env: &[&str]| {
            let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            SecretCommand { words: own(words), env: own(env) }
        };
        let file = folder.path().join("cluster.yaml");
        let key_of = |command: &SecretCommand| key(command, &file, folder.path()).unwrap();
        fs::write(folder.path().join("vault"), "one").unwrap();
        let first = command(&["./vault", "a b"], &[]);
        let known = key_of(&first);
        assert_eq!(key_of(&first), known);
        for other in [
            command(&["./vault", "a", "b"], &[]),
            command(&["./vault", "a b"], &["TOKEN"]),
            command(&["./vault", "a b", "TOKEN"], &[]),
        ] {
            assert_ne!(key_of(&other), known, "{other:?}");
        }
        let elsewhere = key(&first, Path::new("/elsewhere/cluster.yaml"), folder.path());
        assert_ne!(elsewhere.unwrap(), known);
        fs::write(folder.path().join("vault"), "two").unwrap();
        assert_ne!(key_of(&first), known, "the script changed");
        assert_eq!(shown(&command(&["a\u{1b}[2J"], &[])), r#"["a\u{1b}[2J"]"#);
        assert_eq!(variables(&command(&["a"], &["HOME", "X"])), ["PATH", "HOME", "X"]);
    }

    #[test]
    fn consent_covers_every_file_that_the_words_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let key_of = |words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            let command = SecretCommand { words, env: vec![] };
            key(&command, Path::new("cluster.yaml"), folder.path())
        };
        fs::create_dir(folder.path().join("scripts")).unwrap();
        for words in [
            &["sh", "./vault.sh"][..],
            &["sh", "vault.sh"],
            &["sh", "-e", "scripts/../vault.sh", "key"],
            &["vault", "--config=vault.sh"],
            &["./vault.sh"],
        ] {
            fs::remove_file(folder.path().join("vault.sh")).ok();
            let missing = key_of(words).unwrap();
            write("vault.sh", "");
            let empty = key_of(words).unwrap();
            write("vault.sh", "echo hunter2");
            let script = key_of(words).unwrap();
            assert_eq!(key_of(words).unwrap(), script);
            assert!(missing != empty && empty != script && script != missing, "{words:?}");
        }
        // A file in the folder is not used for a program without a slash, and a folder is not a file.
        let (plain, listed) = (key_of(&["vault.sh"]), key_of(&["ls", "scripts"]));
        write("vault.sh", "echo other");
        write("scripts/more", "more");
        assert_eq!((key_of(&["vault.sh"]), key_of(&["ls", "scripts"])), (plain, listed));
        // For a program that is too large to be read, the checksum covers its size and the time of its last change.
        let large = fs::File::create(folder.path().join("large")).unwrap();
        large.set_len(regular_file::LARGEST_OWN + 1).unwrap();
        let before = key_of(&["./large"]);
        assert_eq!((before.is_some(), key_of(&["./large"]) == before), (true, true));
        large.set_len(regular_file::LARGEST_OWN + 2).unwrap();
        assert_ne!(key_of(&["./large"]), before);
    }
}
