//! Splitting of an expression into tokens.

use super::Problem;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Int(String),
    Uint(String),
    Double,
    /// Value of a string literal.
    Text(String),
    Bytes,
    Symbol(&'static str),
    End,
}

/// The longest symbols come first, so that `<=` is not read as `<`.
const SYMBOLS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// Splits a source text into tokens with their positions.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, usize)>, Problem> {
    let mut tokens = vec![];
    let mut at = 0;
    loop {
        at = skip_blanks(source, at);
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, at));
            return Ok(tokens);
        };
        let (token, length) = if let Some((is_bytes, raw, quote)) = string_start(rest) {
            let (text, length) = string(rest, quote, raw)
                .ok_or_else(|| Problem::new(at, "Syntax error: token recognition error"))?;
            let token = if is_bytes { Token::Bytes } else { Token::Text(text) };
            (token, length)
        } else if first.is_ascii_digit() || starts_fraction(rest) {
            number(rest)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Ident(rest[..length].to_owned()), length)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let reason = format!("Syntax error: token recognition error at: '{first}'");
            return Err(Problem::new(at, reason));
        };
        tokens.push((token, at));
        at += length;
    }
}

fn skip_blanks(source: &str, mut at: usize) -> usize {
    loop {
        let rest = &source[at..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        at += rest.len() - trimmed.len();
        if !trimmed.starts_with("//") {
            return at;
        }
        at += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

fn starts_fraction(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('.') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Start of a string literal: whether it contains bytes, whether it is raw, and its closing quote.
fn string_start(rest: &str) -> Option<(bool, bool, &'static str)> {
    let prefix =
        rest.find(|c: char| !matches!(c, 'r' | 'R' | 'b' | 'B')).filter(|length| *length <= 2)?;
    let letters = rest[..prefix].to_ascii_lowercase();
    let raw = letters.contains('r');
    let is_bytes = letters.contains('b');
    if matches!(letters.as_str(), "rr" | "bb") {
        return None;
    }
    let quote =
        ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest[prefix..].starts_with(quote))?;
    Some((is_bytes, raw, quote))
}

/// Value of a string literal, and the length of the literal including its quotes.
fn string(rest: &str, quote: &str, raw: bool) -> Option<(String, usize)> {
    let start = rest.find(quote)? + quote.len();
    let mut at = start;
    let mut text = String::new();
    loop {
        let left = &rest[at..];
        if left.starts_with(quote) {
            return Some((text, at + quote.len()));
        }
        let c = left.chars().next()?;
        if c == '\\' && !raw {
            let (escaped, length) = escape(&left[1..])?;
            text.push(escaped);
            at += 1 + length;
            continue;
        }
        if quote.len() == 1 && matches!(c, '\n' | '\r') {
            return None;
        }
        text.push(c);
        at += c.len_utf8();
    }
}

/// Character of an escape sequence, and the length of the sequence without its backslash.
fn escape(after: &str) -> Option<(char, usize)> {
    // A number that is not a valid character is accepted here, because the type of the expression does not depend on
    // it.
    let character = |code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    let hex = |count: usize| {
        let digits = after.get(1..=count)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        Some((character(code), count + 1))
    };
    let simple = match after.chars().next()? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        same @ ('"' | '\'' | '\\' | '?' | '`') => same,
        'x' | 'X' => return hex(2),
        'u' => return hex(4),
        'U' => return hex(8),
        '0'..='3' => {
            let digits = after.get(..3)?;
            let is_octal = digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
            let code = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal)?;
            return Some((character(code), 3));
        }
        _ => return None,
    };
    Some((simple, 1))
}

fn number(rest: &str) -> (Token, usize) {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = |length: usize| rest[length..].starts_with(['u', 'U']);
    if rest.starts_with("0x") || rest.starts_with("0X") {
        let hex = rest[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        if hex > 0 {
            let length = 2 + hex;
            let text = rest[..length].to_ascii_lowercase();
            return if unsigned(length) {
                (Token::Uint(text), length + 1)
            } else {
                (Token::Int(text), length)
            };
        }
    }
    let whole = digits(rest);
    let mut length = whole;
    let mut is_double = false;
    if rest[length..].starts_with('.') {
        let fraction = digits(&rest[length + 1..]);
        if fraction > 0 {
            is_double = true;
            length += 1 + fraction;
        }
    }
    if rest[length..].starts_with(['e', 'E']) {
        let signed = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&rest[length + 1 + signed..]);
        if exponent > 0 {
            is_double = true;
            length += 1 + signed + exponent;
        }
    }
    if is_double {
        return (Token::Double, length);
    }
    let text = rest[..length].to_owned();
    if unsigned(length) { (Token::Uint(text), length + 1) } else { (Token::Int(text), length) }
}
