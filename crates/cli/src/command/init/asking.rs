//! Questions of `init`, answered by flags, prompts or defaults.

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::prompt;

/// Reason why an answer is invalid. After an invalid answer to a prompt, the prompt is repeated. An invalid flag ends the
/// command.
#[derive(Debug)]
pub(super) struct InvalidAnswer(CommandError);

impl From<String> for InvalidAnswer {
    fn from(message: String) -> Self {
        Self(CommandError::usage(message))
    }
}

impl From<CommandError> for InvalidAnswer {
    fn from(error: CommandError) -> Self {
        Self(error)
    }
}

/// Source of answers: the flag if it is given, otherwise a prompt (if `is_asking`) or the default.
pub(super) struct Asking<'a> {
    pub(super) printer: &'a Printer,
    pub(super) is_asking: bool,
}

impl Asking<'_> {
    /// Value of the flag. Without a flag: the answer to a prompt, which is repeated until the answer is valid, or the
    /// default.
    pub(super) fn ask<T, P: Into<InvalidAnswer>>(
        &self,
        question: &str,
        flag: Option<&str>,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, P>,
    ) -> Result<T, CommandError> {
        let parsed = |answer: &str| {
            parse(answer).map_err(|problem| {
                let InvalidAnswer(error) = problem.into();
                error
            })
        };
        if let Some(flag) = flag {
            return parsed(flag);
        }
        if !self.is_asking {
            let Some(default) = default else {
                let error = CommandError::usage_as(
                    CommandCode::InputNeeded,
                    format!("{question}: no value was given"),
                );
                return Err(error.hint(
                    "pass --subnet CIDR, which is required without a terminal; see `talmox init --help`",
                ));
            };
            return parsed(default);
        }
        loop {
            let line = self.line(question, default)?;
            let answer = if line.is_empty() { default.unwrap_or_default() } else { &line };
            match parsed(answer) {
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

    pub(super) fn ask_optional<T, P: Into<InvalidAnswer>>(
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
