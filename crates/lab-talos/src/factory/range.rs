//! Parts of a file: the `Range` header.

use super::answer::Answer;

/// Answers with the part that was asked for. A header that makes no sense is ignored, and so is one
/// that asks for several parts.
pub(super) fn cut_out(answer: Answer, range: Option<&str>) -> Answer {
    let length = answer.body.len();
    let answer = answer.with("Accept-Ranges", "bytes");
    let (first, last) = match range.map_or(Part::All, |range| parse(range, length)) {
        Part::All => return answer,
        Part::Outside => {
            let refused = Answer::error(416, "invalid range: failed to overlap");
            return refused.with("Content-Range", format!("bytes */{length}"));
        }
        Part::Of(first, last) => (first, last),
    };
    let body = answer.body.slice(first..=last);
    let told = format!("bytes {first}-{last}/{length}");
    Answer { status: 206, body, ..answer }.with("Content-Range", told)
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    All,
    /// From the first byte to the last.
    Of(usize, usize),
    /// None of it is in the file.
    Outside,
}

fn parse(range: &str, length: usize) -> Part {
    let given = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let Some((first, last)) = given else { return Part::All };
    let number = |text: &str| text.trim().parse::<usize>();
    let (first, last) = match (number(first), number(last)) {
        (Ok(first), Ok(last)) if first <= last => (first, last),
        (Ok(first), Err(_)) if last.trim().is_empty() => (first, usize::MAX),
        (Err(_), Ok(0)) if first.trim().is_empty() => return Part::Outside,
        (Err(_), Ok(count)) if first.trim().is_empty() => {
            (length.saturating_sub(count), usize::MAX)
        }
        _ => return Part::All,
    };
    if first < length { Part::Of(first, last.min(length - 1)) } else { Part::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_servers_do() {
        assert_eq!(parse("bytes=0-3", 10), Part::Of(0, 3));
        assert_eq!(parse("bytes=4-", 10), Part::Of(4, 9));
        assert_eq!(parse("bytes=-3", 10), Part::Of(7, 9));
        assert_eq!(parse("bytes=-30", 10), Part::Of(0, 9));
        assert_eq!(parse("bytes=5-99", 10), Part::Of(5, 9));
        assert_eq!(parse("bytes=10-", 10), Part::Outside);
        assert_eq!(parse("bytes=-0", 10), Part::Outside);
        for strange in ["bytes=3-1", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=-", ""] {
            assert_eq!(parse(strange, 10), Part::All, "{strange}");
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
