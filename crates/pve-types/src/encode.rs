//! Percent-encoding of path segments, queries and forms.

use std::fmt::Display;

/// Encodes all characters that have a meaning in a path, a query or a form.
pub fn component(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Path of the escaped segments. A `/` inside a segment is escaped.
pub(crate) fn path(segments: &[&dyn Display]) -> String {
    segments.iter().map(|segment| format!("/{}", component(&segment.to_string()))).collect()
}

/// Encodes parameters for the query of a URL or the body of a form.
pub(crate) fn form(params: &[(String, String)]) -> String {
    let pair =
        |(name, value): &(String, String)| format!("{}={}", component(name), component(value));
    params.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_escaped() {
        assert_eq!(component("a b+c&d=e/ü~"), "a%20b%2Bc%26d%3De%2F%C3%BC~");
        let volume = "local:import/x.raw";
        assert_eq!(path(&[&"content", &volume]), "/content/local%3Aimport%2Fx.raw");
        let params = [("tags".to_owned(), "a;b".to_owned()), ("x".to_owned(), String::new())];
        assert_eq!(form(&params), "tags=a%3Bb&x=");
        assert_eq!(form(&[]), "");
    }
}
