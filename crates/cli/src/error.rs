//! Errors of commands, with their hints and exit codes.

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value as Json, json};
use talmox_engine::step::StepCode;
use talmox_model::Code;

use crate::command_code::CommandCode;
use crate::escape::unstyled;

/// Documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine = 0,
    Failed = 1,
    /// `plan --detailed-exitcode`: the plan has changes.
    Changes = 2,
    /// `up`: the run was successful, and left changes that need consent, are impossible or are blocked by an error.
    Partial = 3,
    Usage = 64,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Code of an error: a code of the commands, or a more precise code of a run or of the inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    Command(CommandCode),
    Step(StepCode),
    Inventory(Code),
}

impl ErrorCode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Command(code) => code.as_str(),
            Self::Step(code) => code.as_str(),
            Self::Inventory(code) => code.as_str(),
        }
    }
}

impl From<CommandCode> for ErrorCode {
    fn from(code: CommandCode) -> Self {
        Self::Command(code)
    }
}

impl From<StepCode> for ErrorCode {
    fn from(code: StepCode) -> Self {
        Self::Step(code)
    }
}

impl From<Code> for ErrorCode {
    fn from(code: Code) -> Self {
        Self::Inventory(code)
    }
}

/// Error that ends a command: code, message, cause, hint and exit code.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) code: ErrorCode,
    pub(crate) exit: Exit,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    pub(crate) hint: Option<String>,
    /// Additional fields for the JSON output.
    details: Vec<(&'static str, Json)>,
}

impl CommandError {
    pub(crate) fn failed(code: impl Into<ErrorCode>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            exit: Exit::Failed,
            message: message.into(),
            source: None,
            hint: None,
            details: vec![],
        }
    }

    /// Error about wrong usage of the command line, with the general code `usage`.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::usage_as(CommandCode::Usage, message)
    }

    pub(crate) fn usage_as(code: impl Into<ErrorCode>, message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(code, message) }
    }

    pub(crate) fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn detail(mut self, name: &'static str, value: Json) -> Self {
        self.details.push((name, value));
        self
    }

    /// JSON form of the error, described in docs/COMMANDS.md.
    pub(crate) fn to_json(&self) -> Json {
        let mut error = json!({
            "code": self.code.as_str(),
            "message": unstyled(&self.chain()),
            "exit_code": self.exit as u8,
        });
        let fields = error.as_object_mut().expect("invariant: made as an object above");
        fields.extend(self.hint.as_ref().map(|hint| ("hint".to_owned(), json!(hint))));
        fields.extend(self.details.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        json!({ "error": error })
    }

    /// Message and causes of the error, joined by `: `, without repetitions.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause: Option<&dyn Error> = self.source.as_deref().map(|source| source as _);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}
