//! `talmox explain`

use std::ffi::OsStr;

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use serde_json::{Value as Json, json};
use talmox_engine::step::StepCode;
use talmox_model::{Code, Explanation, closest};
use talmox_plan::plan::FindingCode;

use super::Outcome;
use crate::args::Format;
use crate::command_code::CommandCode;
use crate::error::{CommandError, Exit};
use crate::printer::Printer;
use crate::words::{aligned, wrapped};

const AFTER_HELP: &str = "\
Examples:
  talmox explain vm-foreign
  talmox explain --format json";

/// Maximum width of an explanation.
const WIDTH: usize = 100;

/// Explain the code of an error or finding
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExplainArgs {
    /// The code, as in `error[vm-foreign]` [default: list all codes]
    #[arg(value_name = "CODE", value_parser = CodeParser, hide_possible_values = true)]
    code: Option<String>,
}

/// Parser that accepts any text, so that an unknown code gets the usual hint. It lists the codes for shell completions.
#[derive(Clone, Debug)]
struct CodeParser;

impl TypedValueParser for CodeParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let codes = groups().into_iter().flat_map(|group| group.codes);
        Some(Box::new(codes.map(|one| PossibleValue::new(one.code))))
    }
}

/// The codes of one kind of message.
struct Group {
    name: &'static str,
    about: &'static str,
    codes: Vec<Explanation>,
}

fn groups() -> [Group; 4] {
    [
        Group {
            name: "inventory",
            about: "Problems of an inventory. `talmox check` reports them, and so does every command that reads an inventory.",
            codes: Code::ALL.iter().copied().map(Code::explanation).collect(),
        },
        Group {
            name: "plan",
            about: "Findings of a plan and of the preflight checks: `talmox plan`, `talmox check --live`, `talmox up`, `talmox destroy`.",
            codes: FindingCode::ALL.iter().copied().map(FindingCode::explanation).collect(),
        },
        Group {
            name: "run",
            about: "Errors of steps while `talmox up`, `talmox destroy` or `talmox template create` runs, and of the Proxmox API.",
            codes: StepCode::ALL.iter().copied().map(StepCode::explanation).collect(),
        },
        Group {
            name: "command",
            about: "Errors that end a command.",
            codes: CommandCode::ALL.iter().copied().map(CommandCode::explanation).collect(),
        },
    ]
}

pub(crate) fn run(args: &ExplainArgs, printer: &Printer) -> Outcome {
    let groups = groups();
    let result = match &args.code {
        None => list(&groups, printer.format),
        Some(code) => {
            let (group, explanation) = find(&groups, code)?;
            match printer.format {
                Format::Json => format!("{:#}\n", to_json(group, &explanation)),
                Format::Text => text(&explanation, printer.result_columns()),
            }
        }
    };
    printer.result(&result)?;
    Ok(Exit::Fine)
}

fn find<'a>(groups: &'a [Group], code: &str) -> Result<(&'a Group, Explanation), CommandError> {
    let in_group = |group: &'a Group| {
        let found = group.codes.iter().find(|one| one.code == code)?;
        Some((group, *found))
    };
    groups.iter().find_map(in_group).ok_or_else(|| {
        let known = groups.iter().flat_map(|group| &group.codes).map(|one| one.code);
        let hint = match closest(code, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "run `talmox explain` to list all codes".to_owned(),
        };
        let message = format!("there is no code `{code}`");
        CommandError::usage_as(CommandCode::CodeUnknown, message).hint(hint)
    })
}

fn text(explanation: &Explanation, columns: Option<usize>) -> String {
    let Explanation { code, title, meaning, action } = explanation;
    let width = columns.unwrap_or(WIDTH).min(WIDTH);
    let action = format!("What to do: {action}");
    let paragraphs = [*meaning, action.as_str()].map(|part| wrapped(part, width).join("\n"));
    format!("{code}: {title}\n\n{}\n", paragraphs.join("\n\n"))
}

fn list(groups: &[Group], format: Format) -> String {
    if format == Format::Json {
        let codes: Vec<Json> = groups
            .iter()
            .flat_map(|group| group.codes.iter().map(move |one| to_json(group, one)))
            .collect();
        return format!("{:#}\n", json!({ "codes": codes }));
    }
    let shown = groups.iter().map(|group| {
        let rows: Vec<[String; 2]> = group
            .codes
            .iter()
            .map(|one| [format!("  {}", one.code), one.title.to_owned()])
            .collect();
        format!("{}: {}\n{}", group.name, group.about, aligned(&rows))
    });
    let shown: Vec<String> = shown.collect();
    shown.join("\n")
}

fn to_json(group: &Group, explanation: &Explanation) -> Json {
    let Explanation { code, title, meaning, action } = explanation;
    json!({
        "code": code,
        "group": group.name,
        "title": title,
        "meaning": meaning,
        "action": action,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::environment;

    const INTRO: &str = "\
# Codes

Every error and finding has a stable code, shown as `error[CODE]` or `warning[CODE]`, and in JSON as `code`. `talmox explain CODE`
prints the same text as this page. The file is generated: `TALMOX_BLESS=1 cargo test -p talmox explain` writes it.
";

    /// Text of docs/CODES.md.
    fn markdown() -> String {
        let mut out = INTRO.to_owned();
        for group in groups() {
            out.push_str(&format!("\n## {}\n\n{}\n", group.name, group.about));
            for Explanation { code, title, meaning, action } in group.codes {
                out.push_str(&format!(
                    "\n### {code}\n\n{title}. {meaning}\n\nWhat to do: {action}\n"
                ));
            }
        }
        out
    }

    #[test]
    fn the_documentation_has_every_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CODES.md");
        if environment::raw("TALMOX_BLESS").is_some() {
            fs::write(&path, markdown()).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap();
        let hint = "docs/CODES.md is not current: TALMOX_BLESS=1 cargo test -p talmox explain";
        assert_eq!(written, markdown(), "{hint}");
    }

    #[test]
    fn every_code_is_unique_and_explained_in_whole_sentences() {
        let mut known = BTreeSet::new();
        for Explanation { code, title, meaning, action } in
            groups().into_iter().flat_map(|group| group.codes)
        {
            assert!(known.insert(code), "{code} is in two groups");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(code.chars().all(is_plain), "{code}");
            assert!(!title.is_empty() && !title.ends_with('.'), "{code}: {title}");
            for part in [meaning, action] {
                assert!(part.ends_with('.') && !part.contains("  "), "{code}: {part}");
            }
        }
    }

    #[test]
    fn a_mistyped_code_gets_a_suggestion() {
        let groups = groups();
        let hint = |code: &str| find(&groups, code).err().and_then(|error| error.hint);
        assert_eq!(hint("vm-foriegn").as_deref(), Some("did you mean `vm-foreign`?"));
        let list = "run `talmox explain` to list all codes";
        assert_eq!(hint("0123456789").as_deref(), Some(list));
        assert_eq!(hint("vm-foreign"), None);
    }

    #[test]
    fn an_explanation_fits_a_terminal() {
        for explanation in groups().into_iter().flat_map(|group| group.codes) {
            let text = text(&explanation, Some(60));
            let mut lines = text.lines().skip(1);
            assert!(lines.all(|line| line.chars().count() <= 60 || !line.contains(' ')), "{text}");
        }
    }
}
