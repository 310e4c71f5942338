//! PEM: base64 between two marker lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const LINE: usize = 64;

pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(STANDARD.encode(der));
    let mut text = Zeroizing::new(String::with_capacity(body.len() + body.len() / LINE + 80));
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Label and bytes of the first block.
pub(crate) fn decode(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    let der = STANDARD.decode(body.as_bytes()).ok()?;
    Some((label, Zeroizing::new(der)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_blocks_round_trip() {
        let text = encode("X KEY", &[7; 100]);
        assert_eq!(text.lines().nth(1).map(str::len), Some(64));
        let (label, der) = decode(&text).unwrap();
        assert_eq!((label, der.as_slice()), ("X KEY", [7; 100].as_slice()));
        assert!(decode("-----BEGIN A-----\n!!\n-----END A-----").is_none());
        assert!(decode("nothing").is_none());
    }
}
