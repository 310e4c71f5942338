//! `talmox secrets edit`

use std::io::{self, BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::sops::{SopsDocument, SopsError};

use super::{ClusterArg, report};
use crate::args::Global;
use crate::choose;
use crate::command::Outcome;
use crate::command_code::CommandCode;
use crate::disk::{self, PrivateFolder};
use crate::environment;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::secrets::{self, SecretsFile};
use crate::words;

/// Edit the secrets with $SOPS_EDITOR, $VISUAL or $EDITOR
///
/// The Talos bundle is shown but cannot be changed: it is the identity of the cluster. Other commands that change the
/// secrets wait until the editor is closed.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    cluster: ClusterArg,
}

pub(super) fn run(args: &EditArgs, global: &Global, printer: &Printer) -> Outcome {
    let chosen = choose::one(global, args.cluster.cluster.as_deref(), printer)?;
    let _lock = secrets::lock(&chosen, printer)?;
    let mut file = SecretsFile::open_existing(&chosen)?;
    let signals = Signals::new()?;
    let before = file.document.plaintext();
    let mut text = before.clone();
    loop {
        text = edited(&text, &signals, printer)?;
        if text == before {
            printer.say("no changes");
            return report(&file, false, printer);
        }
        match take_over(&file, &text) {
            Ok(document) => {
                file.document = document;
                file.save()?;
                printer.say(&format!("wrote {}", file.path.display()));
                return report(&file, true, printer);
            }
            Err(error) => {
                printer.say_error(error.code, &error.chain());
                if !ask_again(printer) {
                    return Err(CommandError::failed(
                        CommandCode::EditInvalid,
                        "nothing was written",
                    ));
                }
            }
        }
    }
}

/// Parses and checks the edited text.
fn take_over(file: &SecretsFile, text: &SecretText) -> Result<SopsDocument, CommandError> {
    let mut document = file.document.clone();
    document.replace_plaintext(text.expose()).map_err(|error| rejected(error, text))?;
    let edited = file.with(document);
    let after = edited.bundle()?;
    let known = file.bundle();
    if matches!(&known, Ok(Some(before)) if after.as_ref() != Some(before)) {
        let message = "the Talos bundle was changed, which is the identity of the cluster";
        return Err(CommandError::failed(CommandCode::EditInvalid, message));
    }
    Ok(edited.document)
}

/// Error for an invalid text. The message contains the number of the line, but no part of the text.
fn rejected(error: SopsError, text: &SecretText) -> CommandError {
    let SopsError::Yaml(error) = error else {
        return CommandError::failed(CommandCode::EditInvalid, "sops cannot store this text")
            .because(error);
    };
    let before = text.expose().bytes().take(error.span.start);
    let line = before.filter(|byte| *byte == b'\n').count() + 1;
    CommandError::failed(CommandCode::EditInvalid, format!("this is not YAML, line {line}"))
        .because(error)
}

/// Asks whether to edit the text again. Returns false without a terminal.
fn ask_again(printer: &Printer) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    printer.say_raw("Edit again? [Y/n] ");
    io::stderr().flush().ok();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer).unwrap_or(0);
    read > 0 && !answer.trim().to_lowercase().starts_with('n')
}

/// Runs the editor on a temporary file and returns the edited text.
fn edited(
    text: &SecretText,
    signals: &Signals,
    printer: &Printer,
) -> Result<SecretText, CommandError> {
    let failed = |error: io::Error| {
        CommandError::failed(CommandCode::FileUnwritable, "cannot write a file to edit")
            .because(error)
    };
    signals.hold();
    let folder = private_folder(printer).map_err(failed)?;
    let path = folder.write("secrets.yaml", text.expose()).map_err(failed)?;
    let status = run_editor(&path)?;
    let result = disk::read_secret(&path);
    drop(folder);
    if signals.is_end_requested() {
        return Err(CommandError::failed(
            CommandCode::Interrupted,
            "interrupted; nothing was written",
        ));
    }
    signals.release();
    if !status.success() {
        let message = format!("the editor failed ({status}); nothing was written");
        return Err(CommandError::failed(CommandCode::EditorFailed, message));
    }
    result?.ok_or_else(|| {
        CommandError::failed(
            CommandCode::EditorFailed,
            "cannot read the edited file: the editor removed it",
        )
    })
}

/// Private folder for the temporary file. It is in memory if possible, so that no secret remains on a disk.
fn private_folder(printer: &Printer) -> io::Result<PrivateFolder> {
    let in_memory = [environment::path("XDG_RUNTIME_DIR"), Some(PathBuf::from("/dev/shm"))];
    for parent in in_memory.into_iter().flatten().filter(|path| path.is_dir()) {
        if let Ok(folder) = PrivateFolder::new(&parent) {
            return Ok(folder);
        }
    }
    let parent = std::env::temp_dir();
    printer.warn(&format!(
        "the unencrypted text is on disk while you edit it, in {}",
        parent.display()
    ));
    PrivateFolder::new(&parent)
}

fn run_editor(path: &Path) -> Result<ExitStatus, CommandError> {
    let variables = ["SOPS_EDITOR", "VISUAL", "EDITOR"];
    let named = variables.into_iter().find_map(|name| Some((name, environment::variable(name)?)));
    if let Some((name, command)) = named {
        let words = words::split(&command).ok_or_else(|| {
            CommandError::failed(CommandCode::EditorFailed, format!("cannot parse ${name}"))
        })?;
        let status = Command::new(&words[0]).args(&words[1..]).arg(path).status();
        return status.map_err(|error| {
            CommandError::failed(
                CommandCode::EditorFailed,
                format!("cannot run `{}` of ${name}", words[0]),
            )
            .because(error)
        });
    }
    for editor in ["vim", "nano", "vi"] {
        match Command::new(editor).arg(path).status() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => {
                let message = format!("cannot run `{editor}`");
                return outcome.map_err(|error| {
                    CommandError::failed(CommandCode::EditorFailed, message).because(error)
                });
            }
        }
    }
    Err(CommandError::failed(CommandCode::EditorFailed, "no editor found").hint("set $EDITOR"))
}

/// Signal handling while the editor runs. A signal must not end talmox before talmox has removed the temporary file. Then
/// signals have their usual effect again.
struct Signals {
    is_usual: Arc<AtomicBool>,
    told_to_end: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> Result<Self, CommandError> {
        let signals =
            Self { is_usual: Arc::new(AtomicBool::new(true)), told_to_end: Arc::default() };
        let register = || -> io::Result<()> {
            for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
                flag::register_conditional_default(signal, Arc::clone(&signals.is_usual))?;
            }
            for signal in [SIGTERM, SIGHUP] {
                flag::register(signal, Arc::clone(&signals.told_to_end))?;
            }
            Ok(())
        };
        register().map_err(|error| {
            CommandError::failed(CommandCode::SystemFailed, "cannot install signal handlers")
                .because(error)
        })?;
        Ok(signals)
    }

    fn hold(&self) {
        self.is_usual.store(false, Ordering::SeqCst);
    }

    fn release(&self) {
        self.is_usual.store(true, Ordering::SeqCst);
    }

    fn is_end_requested(&self) -> bool {
        self.told_to_end.load(Ordering::SeqCst)
    }
}
