//! Questions of `init`: answered by a flag, by a person, or by a default.

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::prompt;

/// Why an answer is not good. A person is asked again; a flag ends the command.
#[derive(Debug)]
pub(super) struct Problem(CommandError);

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self(CommandError::usage(message))
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        Self(error)
    }
}

/// Asks on the terminal, or goes by flags and defaults.
pub(super) struct Asking<'a> {
    pub(super) printer: &'a Printer,
    pub(super) is_asking: bool,
}

impl Asking<'_> {
    /// A flag wins; then a person is asked until the answer is good; then the default stands.
    pub(super) fn ask<T, P: Into<Problem>>(
        &self,
        question: &str,
        flag: Option<&str>,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, P>,
    ) -> Result<T, CommandError> {
        let judged = |answer: &str| {
            parse(answer).map_err(|problem| {
                let Problem(error) = problem.into();
                error
            })
        };
        if let Some(flag) = flag {
            return judged(flag);
        }
        if !self.is_asking {
            let Some(default) = default else {
                let error = CommandError::usage_as(
                    CommandCode::InputNeeded,
                    format!("{question}: not given"),
                );
                return Err(error.hint(
                    "without a terminal, --subnet CIDR is needed; see `talmox init --help`",
                ));
            };
            return judged(default);
        }
        loop {
            let line = self.line(question, default)?;
            let answer = if line.is_empty() { default.unwrap_or_default() } else { &line };
            match judged(answer) {
                Ok(value) => return Ok(value),
                Err(problem) => {
                    self.printer.say_always(&format!("  {}", problem.chain()));
                    if let Some(hint) = &problem.hint {
                        self.printer.say(&format!("  hint: {hint}"));
                    }
                }
            }
        }
    }

    pub(super) fn ask_optional<T, P: Into<Problem>>(
        &self,
        question: &str,
        flag: Option<&str>,
        parse: impl Fn(&str) -> Result<T, P>,
    ) -> Result<Option<T>, CommandError> {
        self.ask(question, flag, Some(""), |text| {
            if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
        })
    }

    pub(super) fn yes_or_no(&self, question: &str, default: bool) -> Result<bool, CommandError> {
        let shown = if default { "Y/n" } else { "y/N" };
        match self.line(question, Some(shown))?.to_lowercase().as_str() {
            "" => Ok(default),
            answer => Ok(matches!(answer, "y" | "yes")),
        }
    }

    fn line(&self, question: &str, default: Option<&str>) -> Result<String, CommandError> {
        let shown = match default {
            Some(default) if !default.is_empty() => format!("{question} [{default}]: "),
            _ => format!("{question}: "),
        };
        Ok(prompt::line(&shown, self.printer)?.trim().to_owned())
    }
}
