//! Placeholder.
use crate::{Config, Release};

/// Where a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Metal,
    Cloud,
    Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Decode,
    Validate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub stage: Stage,
    pub warnings: Vec<String>,
    pub error: Option<String>,
}

pub fn validate(text: &str, _mode: Mode, release: Release) -> Verdict {
    match Config::parse(text, release) {
        Err(error) => Verdict {
            stage: Stage::Decode,
            warnings: vec![],
            error: Some(error.to_string()),
        },
        Ok(_) => Verdict {
            stage: Stage::Validate,
            warnings: vec![],
            error: None,
        },
    }
}
