//! Findings, for people and for programs.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use serde_json::{Value as Json, json};
use talmox_model::{Diagnostic, Inventory, Label, Severity, Source, Sources};

use crate::visible::{plain, styled_by_library};

/// More findings than this are counted, not shown.
const MOST_SHOWN: usize = 50;

/// All findings with their source lines.
pub(crate) fn text(inventory: &Inventory, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    let mut shown: Vec<&Diagnostic> = inventory.diagnostics.iter().collect();
    if shown.len() > MOST_SHOWN {
        // The sort is stable: within each severity the order of the files stays.
        shown.sort_by_key(|diagnostic| diagnostic.severity);
    }
    for diagnostic in shown.into_iter().take(MOST_SHOWN) {
        out.push_str(&styled_by_library(&one(diagnostic, &inventory.sources, &renderer)));
        out.push_str("\n\n");
    }
    let hidden = inventory.diagnostics.len().saturating_sub(MOST_SHOWN) + inventory.unlisted;
    if hidden > 0 {
        out.push_str(&format!("… and {hidden} more; `--format json` lists up to 1,000\n\n"));
    }
    out
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
    // Escapes are longer than what they stand for: places move with the text before them.
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

/// A place that spans lines is pointed at by its first one: the rest only pushes the hint away.
fn first_line(text: &str, place: Range<usize>) -> Range<usize> {
    let start = place.start.min(text.len());
    let end = place.end.clamp(start, text.len());
    let line_end = text[start..end].find(['\n', '\r']).map_or(end, |newline| start + newline);
    start..line_end
}

/// Breaks a hint into lines that fit beside its label.
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

/// All findings as data.
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
    use crate::visible::{Escapes, shown};

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
    fn places_are_right_behind_what_is_escaped() {
        let found = inventory("cluster.yaml", "{\"a\u{202e}b\": 1, wrong: 2}\n");
        let text = text(&found, false);
        let line = r#"1 | {"a\u{202e}b": 1, wrong: 2}"#;
        assert!(text.contains(&format!("{line}\n  |  ^^^^^^^^^^^^\n")), "{text}");
        assert!(text.contains(&format!("{line}\n  | {:18}^^^^^\n", "")), "{text}");
    }

    proptest! {
        #[test]
        fn no_file_controls_the_terminal(name in "(?s)[^/\0]{1,12}", line in "(?s).{0,48}", color: bool) {
            let quoted = line.replace(['"', '\\'], "");
            for file in [line.clone(), format!("{line}: 1\n"), format!("\"{quoted}\": [\n")] {
                let found = inventory(&name, &file);
                let styled = text(&found, color);
                let text = shown(&styled, Escapes::Text);
                // Only the colours of the library are left.
                let rest: String = text.split("\u{1b}[").enumerate().map(|(nth, part)| {
                    let is_color = |c: char| c.is_ascii_digit() || c == ';';
                    match part.split_once('m') {
                        Some((sgr, rest)) if nth > 0 && sgr.chars().all(is_color) => rest,
                        _ => part,
                    }
                }).collect();
                let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                prop_assert!(!rest.replace("\r\n", "\n").contains(is_obeyed), "{text:?}");
                prop_assert!(color || !text.contains('\u{1b}'), "{text:?}");
            }
        }
    }
}
