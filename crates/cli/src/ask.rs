//! Questions to a person.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::error::CommandError;

/// Goes on only if somebody says yes.
pub(crate) fn yes(question: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} [y/N] "), "add --yes to go on without being asked")?;
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::failed("nothing was changed"))
}

/// Goes on only if somebody writes this word.
pub(crate) fn word(question: &str, word: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} "), "add --yes to go on without being asked")?;
    if answer == word {
        return Ok(());
    }
    Err(CommandError::failed(format!("nothing was changed: the answer was not `{word}`")))
}

fn answer(question: &str, hint: &str) -> Result<String, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(
            CommandError::usage("nothing was changed: there is no terminal to ask on").hint(hint)
        );
    }
    let mut stderr = io::stderr().lock();
    // A question that cannot be shown is answered by nobody.
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).ok();
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CommandError::failed("cannot read the answer").because(error))?;
    Ok(line.trim().to_owned())
}
