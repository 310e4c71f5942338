//! Scalars, and the type that go-yaml gives to a plain scalar when no type is declared.

/// YAML scalar with its style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scalar {
    /// Text of the scalar after unescaping and folding.
    pub text: String,
    pub style: Style,
}

/// Style in which a YAML scalar was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

/// Type of a scalar when no type is declared, by the rules of go-yaml. Talos, Kubernetes and Helm use go-yaml.
///
/// The rules are the core schema of YAML 1.2, with two additions: `0644` and `0o644` are octal, and `_` is allowed
/// between digits. `on`, `off`, `yes` and `no` are text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolved {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text,
}

impl Resolved {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text => "text",
        }
    }
}

impl Scalar {
    pub fn is_null(&self) -> bool {
        self.style == Style::Plain
            && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// Type of this scalar when no type is declared. Quoted and block scalars are always text.
    pub fn resolve(&self) -> Resolved {
        if self.style != Style::Plain {
            return Resolved::Text;
        }
        match self.text.as_str() {
            _ if self.is_null() => Resolved::Null,
            "true" | "True" | "TRUE" => Resolved::Bool(true),
            "false" | "False" | "FALSE" => Resolved::Bool(false),
            text => resolve_number(text),
        }
    }
}

fn resolve_number(text: &str) -> Resolved {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Resolved::Float(if text.starts_with('-') {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            });
        }
        ".nan" | ".NaN" | ".NAN" if unsigned.len() == text.len() => {
            return Resolved::Float(f64::NAN);
        }
        _ => {}
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Resolved::Text;
    }
    if matches!(text, "-0" | "-0.0") {
        return Resolved::Float(-0.0);
    }
    if let Some(int) = resolve_int(unsigned) {
        return Resolved::Int(if text.starts_with('-') { -int } else { int });
    }
    let digits = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    let is_float = digits.chars().all(|c| matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-'))
        && digits.chars().any(|c| c.is_ascii_digit());
    match digits.parse::<f64>() {
        Ok(float) if is_float && float.is_finite() => Resolved::Float(float),
        _ => Resolved::Text,
    }
}

fn resolve_int(unsigned: &str) -> Option<i128> {
    let digits = unsigned.replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits.as_str()),
    };
    let is_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    // go-yaml reads 64-bit integers. Larger numbers are floats.
    let int = if is_digits {
        i128::from_str_radix(digits, radix).ok()?
    } else {
        return None;
    };
    (int <= i128::from(u64::MAX)).then_some(int)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Resolved {
        Scalar { text: text.to_owned(), style: Style::Plain }.resolve()
    }

    #[test]
    fn plain_scalars_resolve_like_go_yaml() {
        for text in ["off", "on", "yes", "No", "v1.2", "1.2.3", "0x", "-", ".", "2020-01-01", "08"]
        {
            assert!(!matches!(plain(text), Resolved::Bool(_) | Resolved::Int(_)), "{text}");
        }
        assert_eq!(plain("0644"), Resolved::Int(420));
        assert_eq!(plain("0o644"), Resolved::Int(420));
        assert_eq!(plain("0x1F"), Resolved::Int(31));
        assert_eq!(plain("1_000"), Resolved::Int(1000));
        assert_eq!(plain("-7"), Resolved::Int(-7));
        assert_eq!(plain("1e3"), Resolved::Float(1000.0));
        assert_eq!(plain(""), Resolved::Null);
        assert_eq!(plain("True"), Resolved::Bool(true));
    }

    #[test]
    fn quoted_scalars_are_text() {
        let scalar = Scalar { text: "true".to_owned(), style: Style::SingleQuoted };
        assert_eq!(scalar.resolve(), Resolved::Text);
    }
}
