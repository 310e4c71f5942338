//! What went wrong, as it is told to a person, and the exit code that says so to a script.

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value as Json, json};

use crate::visible::unstyled;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine = 0,
    Failed = 1,
    /// `plan --detailed-exitcode` has something to do.
    Changes = 2,
    Usage = 64,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of the outside world or of usage: named, explained, with a hint.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    pub(crate) hint: Option<String>,
    /// What programs are told beside the text.
    details: Vec<(&'static str, Json)>,
}

impl CommandError {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            message: message.into(),
            source: None,
            hint: None,
            details: vec![],
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(message) }
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

    /// The shape that every error has for programs: docs/COMMANDS.md describes it.
    pub(crate) fn to_json(&self) -> Json {
        let mut error = json!({ "message": unstyled(&self.chain()), "exit_code": self.exit as u8 });
        let fields = error.as_object_mut().expect("invariant: made as an object above");
        fields.extend(self.hint.as_ref().map(|hint| ("hint".to_owned(), json!(hint))));
        fields.extend(self.details.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        json!({ "error": error })
    }

    /// The message and its causes, each said once.
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
