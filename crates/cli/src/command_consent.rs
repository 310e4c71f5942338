//! Consent to run a command that an inventory names.
//!
//! The author of an inventory could otherwise run programs as every user who plans it. The user's answer is kept in
//! the user's own state folder, never in the repository, which the author of the inventory controls.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use talmox_model::value::SecretCommand;

use crate::choose::Chosen;
use crate::disk::{self, Before};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{ask, regular_file};

/// The variables that every command gets. Others it gets only where its reference names them.
pub(crate) const VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// Whether a person may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// On a terminal, once for each command of an inventory.
    Once,
    /// What was not allowed before is not run.
    Never,
}

/// Whether a command may run: with `--allow-commands`, if the user allowed it before, or if the user does now.
pub(crate) fn may_run(
    command: &SecretCommand,
    setting: &str,
    chosen: &Chosen,
    asking: Asking,
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
    if asking == Asking::Never || !is_person {
        return Ok(false);
    }
    let file = chosen.file().display();
    printer.say_always(&format!("{file} wants to run this command here, for {setting}:"));
    printer.say_always(&format!("  {}", shown(command)));
    printer
        .say_always(&format!("  with the environment variables {}", variables(command).join(", ")));
    let question = "Run it, now and whenever this inventory names the same command?";
    if !ask::agrees(question)? {
        return Ok(false);
    }
    if let Some(path) = record {
        let text = format!("{file}\n{}\n", shown(command));
        if let Err(error) = disk::write_private(&path, &text, Before::Anything) {
            printer.warn(&format!("the answer is not remembered: {}", error.chain()));
        }
    }
    Ok(true)
}

/// The words of a command, so that none is mistaken for another and no control character takes effect.
pub(crate) fn shown(command: &SecretCommand) -> String {
    format!("{:?}", command.words)
}

/// The names of the variables that a command gets.
pub(crate) fn variables(command: &SecretCommand) -> Vec<&str> {
    let named = command.env.iter().map(String::as_str);
    VARIABLES.into_iter().chain(named.filter(|name| !VARIABLES.contains(name))).collect()
}

/// The file that says that a command of this inventory was allowed. None without a home folder.
fn record(command: &SecretCommand, chosen: &Chosen) -> Option<PathBuf> {
    let file = chosen.file();
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = key(command, &file, chosen.folder());
    Some(environment::state_folder()?.join("talmox/allowed-commands").join(name))
}

/// What an answer is about: the inventory, the words, the variables, and the text of a script that is named by its path.
/// A script that changes, as by `git pull`, is asked about again.
fn key(command: &SecretCommand, file: &Path, folder: &Path) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    add(b"talmox command 1");
    add(file.as_os_str().as_encoded_bytes());
    add(&command.words.len().to_be_bytes());
    command.words.iter().for_each(|word| add(word.as_bytes()));
    command.env.iter().for_each(|name| add(name.as_bytes()));
    if let Some(program) = command.words.first().filter(|program| program.contains('/')) {
        let script = regular_file::read(&folder.join(program), regular_file::LARGEST_OWN);
        add(&script.unwrap_or_default());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Another user's file says nothing about what this one allowed.
fn is_remembered(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.uid() == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_about_one_command_of_one_inventory() {
        let folder = tempfile::tempdir().unwrap();
        let command = |words: &[&str], env: &[&str]| {
            let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            SecretCommand { words: own(words), env: own(env) }
        };
        let file = folder.path().join("cluster.yaml");
        let key_of = |command: &SecretCommand| key(command, &file, folder.path());
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
        assert_ne!(key(&first, Path::new("/elsewhere/cluster.yaml"), folder.path()), known);
        fs::write(folder.path().join("vault"), "two").unwrap();
        assert_ne!(key_of(&first), known, "the script is another one");
        assert_eq!(shown(&command(&["a\u{1b}[2J"], &[])), r#"["a\u{1b}[2J"]"#);
        assert_eq!(variables(&command(&["a"], &["HOME", "X"])), ["PATH", "HOME", "X"]);
    }
}
