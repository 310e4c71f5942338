//! Consent to run a command that an inventory names.
//!
//! Without it, the author of an inventory could run programs as every user who runs `talmox plan`. The answer is stored in the
//! state folder of the user, never in the repository, which the author of the inventory controls.

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
use crate::{confirm, regular_file};

/// Environment variables that every command gets. It gets other variables only if its reference names them.
pub(crate) const VARIABLES: [&str; 2] = ["PATH", "HOME"];

/// Whether the user may be asked for consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsentMode {
    /// Ask on a terminal, once for each command of an inventory.
    AskOnce,
    /// Run only commands that were allowed before.
    NeverAsk,
}

/// Whether a command may run: with `--allow-commands`, or with the consent of the user, stored or given now.
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

/// Quotes the words of a command, with control characters escaped.
pub(crate) fn shown(command: &SecretCommand) -> String {
    format!("{:?}", command.words)
}

/// Names of the environment variables that a command gets.
pub(crate) fn variables(command: &SecretCommand) -> Vec<&str> {
    let named = command.env.iter().map(String::as_str);
    VARIABLES.into_iter().chain(named.filter(|name| !VARIABLES.contains(name))).collect()
}

/// Path of the file that stores the consent to a command of this inventory. `None` without a home folder.
fn record(command: &SecretCommand, chosen: &Chosen) -> Option<PathBuf> {
    let file = chosen.file();
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = key(command, &file, chosen.folder());
    Some(environment::state_folder()?.join("talmox/allowed-commands").join(name))
}

/// Checksum of what the consent covers: the inventory, the words, the variables, and the content of a script that is named by its
/// path. A script that changes, for example by `git pull`, needs new consent.
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

/// Whether the consent is stored. A file of another user does not count.
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
        assert_ne!(key_of(&first), known, "the script changed");
        assert_eq!(shown(&command(&["a\u{1b}[2J"], &[])), r#"["a\u{1b}[2J"]"#);
        assert_eq!(variables(&command(&["a"], &["HOME", "X"])), ["PATH", "HOME", "X"]);
    }
}
