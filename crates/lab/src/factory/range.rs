//! Parts of a file: the `Range` header.

use super::answer::Answer;

/// Answers with the part that was asked for. A header that makes no sense is ignored, and so is one
/// that asks for several parts.
pub(super) fn cut_out(answer: Answer, range: Option<&str>) -> Answer {
    let length = answer.body.len();
    let answer = answer.with("Accept-Ranges", "bytes");
    let Some(part) = range.and_then(|range| parse(range, length)) else { return answer };
    let Some((first, last)) = part else {
        let refused = Answer::error(416, "invalid range: failed to overlap");
        return refused.with("Content-Range", format!("bytes */{length}"));
    };
    let body = answer.body.slice(first..=last);
    let told = format!("bytes {first}-{last}/{length}");
    Answer { status: 206, body, ..answer }.with("Content-Range", told)
}

/// The first and the last byte of one range; `Some(None)` for one that is outside of the file.
fn parse(range: &str, length: usize) -> Option<Option<(usize, usize)>> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<usize>().ok();
    if first.trim().is_empty() {
        let count = number(last)?;
        return Some((count > 0 && length > 0).then(|| (length.saturating_sub(count), length - 1)));
    }
    let first = number(first)?;
    let last = if last.trim().is_empty() { usize::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some((first < length).then(|| (first, last.min(length - 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_servers_do() {
        assert_eq!(parse("bytes=0-3", 10), Some(Some((0, 3))));
        assert_eq!(parse("bytes=4-", 10), Some(Some((4, 9))));
        assert_eq!(parse("bytes=-3", 10), Some(Some((7, 9))));
        assert_eq!(parse("bytes=-30", 10), Some(Some((0, 9))));
        assert_eq!(parse("bytes=5-99", 10), Some(Some((5, 9))));
        assert_eq!(parse("bytes=10-", 10), Some(None));
        assert_eq!(parse("bytes=-0", 10), Some(None));
        for strange in ["bytes=3-1", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=-", ""] {
            assert_eq!(parse(strange, 10), None, "{strange}");
        }
    }

    #[test]
    fn answers_tell_which_part_they_are() {
        let whole = Answer::new(200, "application/octet-stream", &b"0123456789"[..]);
        let part = cut_out(whole.clone(), Some("bytes=2-4"));
        assert_eq!((part.status, &part.body[..]), (206, &b"234"[..]));
        assert!(part.headers.contains(&("Content-Range", "bytes 2-4/10".to_owned())));
        assert_eq!(cut_out(whole.clone(), Some("bytes=99-")).status, 416);
        assert_eq!(cut_out(whole, None).status, 200);
    }
}
