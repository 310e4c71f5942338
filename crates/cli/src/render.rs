//! Text and JSON output of inventory findings.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use serde_json::{Value as Json, json};
use talmox_model::{Diagnostic, Inventory, Label, Severity, Source, Sources, Span};

use crate::escape::{plain, styled_by_library};

/// Maximum number of findings in the text output; further findings are only counted.
const MOST_SHOWN: usize = 50;

/// Text output of all findings, with the source lines.
pub(crate) fn text(inventory: &Inventory, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    let mut shown = alike(&inventory.diagnostics);
    let hidden = shown.len().saturating_sub(MOST_SHOWN) + inventory.unlisted;
    if shown.len() > MOST_SHOWN {
        // The sort is stable: findings of the same severity stay in the order of the files.
        shown.sort_by_key(|group| group[0].severity);
    }
    for group in shown.into_iter().take(MOST_SHOWN) {
        let diagnostic = merged(&group);
        out.push_str(&styled_by_library(&one(&diagnostic, &inventory.sources, &renderer)));
        out.push_str("\n\n");
    }
    if hidden > 0 {
        out.push_str(&format!("… and {hidden} more; `--format json` lists up to 1,000\n\n"));
    }
    out
}

/// Number of findings of a severity in the output of [`text`].
pub(crate) fn count(inventory: &Inventory, severity: Severity) -> usize {
    alike(&inventory.diagnostics).iter().filter(|group| group[0].severity == severity).count()
}

/// Groups findings that differ only in the node name. One wrong setting of several nodes causes one finding for each
/// node.
fn alike(diagnostics: &[Diagnostic]) -> Vec<Vec<&Diagnostic>> {
    let mut groups: Vec<Vec<&Diagnostic>> = vec![];
    for diagnostic in diagnostics {
        // Findings are sorted by position, so findings with the same position are adjacent.
        let place = |one: &Diagnostic| one.primary.as_ref().map(|label| label.span);
        let mut here =
            groups.iter_mut().rev().take_while(|group| place(group[0]) == place(diagnostic));
        match here.find(|group| is_alike(group[0], diagnostic)) {
            Some(group) => group.push(diagnostic),
            None => groups.push(vec![diagnostic]),
        }
    }
    groups
}

fn is_alike(a: &Diagnostic, b: &Diagnostic) -> bool {
    let related =
        |one: &Diagnostic| -> Vec<Span> { one.related.iter().map(|label| label.span).collect() };
    let (Some((_, of_a)), Some((_, of_b))) = (subject(&a.message), subject(&b.message)) else {
        return false;
    };
    (a.severity, a.code, &a.hint, of_a) == (b.severity, b.code, &b.hint, of_b)
        && related(a) == related(b)
}

/// Splits a message into its leading name in backticks and the rest.
fn subject(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix('`')?.split_once('`')
}

/// Merges a group into one finding.
fn merged(group: &[&Diagnostic]) -> Diagnostic {
    let mut diagnostic = group[0].clone();
    let others: Vec<String> = group[1..]
        .iter()
        .filter_map(|other| Some(format!("`{}`", subject(&other.message)?.0)))
        .collect();
    if !others.is_empty() {
        diagnostic.message.push_str(&format!(" (also {})", others.join(", ")));
    }
    diagnostic
}

fn one(diagnostic: &Diagnostic, sources: &Sources, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(plain(&diagnostic.message)).id(diagnostic.code.as_str());
    let hint = diagnostic
        .hint
        .as_ref()
        .map(|hint| Level::HELP.with_name("hint").message(wrap(&plain(hint))));
    let mut group = title.elements(Vec::<Origin<'_>>::new());
    if let Some(primary) = &diagnostic.primary {
        let source = sources.get(primary.span.source);
        let kinds = std::iter::once((primary, AnnotationKind::Primary))
            .chain(diagnostic.related.iter().map(|label| (label, AnnotationKind::Context)));
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            kinds.partition(|(label, _)| label.span.source == primary.span.source);
        if source.text().is_empty() {
            group = group.element(Origin::path(plain(&source.name()).into_owned()));
        } else {
            group = group.element(snippet(source, &here));
        }
        for label in &elsewhere {
            let source = sources.get(label.0.span.source);
            group = group.element(snippet(source, std::slice::from_ref(label)));
        }
    }
    renderer.render(&[group.elements(hint)])
}

fn snippet<'a>(
    source: &'a Source,
    labels: &[(&'a Label, AnnotationKind)],
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = source.redacted_text();
    let shown = plain(text);
    // An escape sequence is longer than the character that it replaces, so positions after it shift.
    let moved = |at: usize| if shown.len() == text.len() { at } else { plain(&text[..at]).len() };
    let annotations: Vec<_> = labels
        .iter()
        .map(|(label, kind)| {
            let range = first_line(text, label.span.range());
            let annotation = kind.span(moved(range.start)..moved(range.end));
            if label.text.is_empty() { annotation } else { annotation.label(plain(&label.text)) }
        })
        .collect();
    Snippet::source(shown).path(plain(&source.name()).into_owned()).annotations(annotations)
}

/// First line of a range. Ranges of several lines would make the output long.
fn first_line(text: &str, place: Range<usize>) -> Range<usize> {
    let start = place.start.min(text.len());
    let end = place.end.clamp(start, text.len());
    let line_end = text[start..end].find(['\n', '\r']).map_or(end, |newline| start + newline);
    start..line_end
}

/// Wraps a hint into lines that fit beside the label `hint:`.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 84 {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// JSON output of all findings.
pub(crate) fn json(inventory: &Inventory) -> Json {
    let findings: Vec<Json> = inventory
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let mut finding = json!({
                "severity": severity(diagnostic.severity),
                "code": diagnostic.code.as_str(),
                "message": diagnostic.message,
            });
            let object = finding.as_object_mut().expect("invariant: made as an object above");
            if let Some(label) = &diagnostic.primary {
                let place = place(label, &inventory.sources);
                object.extend(place.as_object().cloned().unwrap_or_default());
            }
            if let Some(hint) = &diagnostic.hint {
                object.insert("hint".to_owned(), json!(hint));
            }
            let related: Vec<Json> = diagnostic
                .related
                .iter()
                .map(|label| {
                    let mut place = place(label, &inventory.sources);
                    place["message"] = json!(label.text);
                    place
                })
                .collect();
            if !related.is_empty() {
                object.insert("related".to_owned(), Json::Array(related));
            }
            finding
        })
        .collect();
    Json::Array(findings)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn place(label: &Label, sources: &Sources) -> Json {
    let source = sources.get(label.span.source);
    let place = label.span.range();
    let (start, end) = (source.position(place.start), source.position(place.end));
    json!({
        "file": source.name(),
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use talmox_model::load::{ClusterFiles, File, Parsed};

    use super::*;
    use crate::escape::{EscapeSyntax, shown};

    fn inventory(name: &str, text: &str) -> Inventory {
        let file = File { path: PathBuf::from(name), content: Ok(text.as_bytes().to_vec()) };
        let files = ClusterFiles {
            default_name: "test".to_owned(),
            cluster: Some(file),
            ..ClusterFiles::default()
        };
        Parsed::new(vec![files]).check(&BTreeMap::new())
    }

    #[test]
    fn positions_after_escaped_characters_are_correct() {
        let found = inventory("cluster.yaml", "{\"a\u{202e}b\": 1, wrong: 2}\n");
        let text = text(&found, false);
        let line = r#"1 | {"a\u{202e}b": 1, wrong: 2}"#;
        assert!(text.contains(&format!("{line}\n  |  ^^^^^^^^^^^^\n")), "{text}");
        assert!(text.contains(&format!("{line}\n  | {:18}^^^^^\n", "")), "{text}");
    }

    #[test]
    fn a_finding_of_several_nodes_is_shown_once_with_their_names() {
        let nodes = "controlplane:\n  - {name: cp-1, ip: 10.0.0.11}\n  - {name: cp-2, ip: 10.0.0.12}\n\
                     workers:\n  - {name: wk-1, ip: 10.0.0.21}\n";
        let head = "talos_version: v1.11.2\nboot: template\n\
                    network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1}\n\
                    proxmox: {endpoint: 'https://pve:8006', token: {env: T}, node: pve}\n";
        let found = inventory("cluster.yaml", &format!("{head}{nodes}"));
        let text = text(&found, false);
        assert_eq!(text.matches("has no template").count(), 1, "{text}");
        assert!(text.contains("`cp-1` has no template (also `cp-2`, `wk-1`)\n"), "{text}");
        // `template` is not a top-level key, but `boot` is.
        let hint =
            "add `template: talos-vX.Y.Z-base` to the node, its class, its role or `machine:`";
        assert!(
            found
                .diagnostics
                .iter()
                .any(|one| { one.hint.as_ref().is_some_and(|known| known.starts_with(hint)) })
        );
        let fixed = format!("{head}machine: {{template: talos-v1.11.2-base}}\n{nodes}");
        assert!(!inventory("cluster.yaml", &fixed).has_errors());
        assert_eq!(count(&found, Severity::Error), 1);
        let all = json(&found);
        let named = |one: &&Json| one["message"].as_str().unwrap().ends_with("has no template");
        assert_eq!(
            all.as_array().unwrap().iter().filter(named).count(),
            3,
            "the JSON output lists all"
        );
    }

    proptest! {
        #[test]
        fn no_file_controls_the_terminal(name in "(?s)[^/\0]{1,12}", line in "(?s).{0,48}", color: bool) {
            let quoted = line.replace(['"', '\\'], "");
            for file in [line.clone(), format!("{line}: 1\n"), format!("\"{quoted}\": [\n")] {
                let found = inventory(&name, &file);
                let styled = text(&found, color);
                let text = shown(&styled, EscapeSyntax::Text);
                // After the colours of the rendering library are removed, no control character may be left.
                let rest: String = text.split("\u{1b}[").enumerate().map(|(nth, part)| {
                    let is_color = |c: char| c.is_ascii_digit() || c == ';';
                    match part.split_once('m') {
                        Some((sgr, rest)) if nth > 0 && sgr.chars().all(is_color) => rest,
                        _ => part,
                    }
                }).collect();
                let is_control_character = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                prop_assert!(!rest.replace("\r\n", "\n").contains(is_control_character), "{text:?}");
                prop_assert!(color || !text.contains('\u{1b}'), "{text:?}");
            }
        }
    }
}
