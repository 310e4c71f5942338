//! `Range` header: requests for a part of a file.

use super::answer::HttpAnswer;

/// Reduces an answer to the requested part. An invalid header, and a request for several parts, are ignored.
pub(super) fn answer_range(answer: HttpAnswer, range: Option<&str>) -> HttpAnswer {
    let length = answer.body.len();
    let answer = answer.with("Accept-Ranges", "bytes");
    let (first, last) = match range.map_or(RequestedRange::All, |range| parse(range, length)) {
        RequestedRange::All => return answer,
        RequestedRange::Outside => {
            let rejected = HttpAnswer::error(416, "invalid range: failed to overlap");
            return rejected.with("Content-Range", format!("bytes */{length}"));
        }
        RequestedRange::Of(first, last) => (first, last),
    };
    let body = answer.body.slice(first..=last);
    let content_range = format!("bytes {first}-{last}/{length}");
    HttpAnswer { status: 206, body, ..answer }.with("Content-Range", content_range)
}

#[derive(Debug, PartialEq, Eq)]
enum RequestedRange {
    All,
    /// Range of bytes. Both ends are part of the range.
    Of(usize, usize),
    /// The range is outside the file.
    Outside,
}

fn parse(range: &str, length: usize) -> RequestedRange {
    let given = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let Some((first, last)) = given else { return RequestedRange::All };
    let number = |text: &str| text.trim().parse::<usize>();
    let (first, last) = match (number(first), number(last)) {
        (Ok(first), Ok(last)) if first <= last => (first, last),
        (Ok(first), Err(_)) if last.trim().is_empty() => (first, usize::MAX),
        (Err(_), Ok(0)) if first.trim().is_empty() => return RequestedRange::Outside,
        (Err(_), Ok(count)) if first.trim().is_empty() => {
            (length.saturating_sub(count), usize::MAX)
        }
        _ => return RequestedRange::All,
    };
    if first < length {
        RequestedRange::Of(first, last.min(length - 1))
    } else {
        RequestedRange::Outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_headers_are_parsed() {
        assert_eq!(parse("bytes=0-3", 10), RequestedRange::Of(0, 3));
        assert_eq!(parse("bytes=4-", 10), RequestedRange::Of(4, 9));
        assert_eq!(parse("bytes=-3", 10), RequestedRange::Of(7, 9));
        assert_eq!(parse("bytes=-30", 10), RequestedRange::Of(0, 9));
        assert_eq!(parse("bytes=5-99", 10), RequestedRange::Of(5, 9));
        assert_eq!(parse("bytes=10-", 10), RequestedRange::Outside);
        assert_eq!(parse("bytes=-0", 10), RequestedRange::Outside);
        for strange in ["bytes=3-1", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=-", ""] {
            assert_eq!(parse(strange, 10), RequestedRange::All, "{strange}");
        }
    }

    #[test]
    fn partial_answers_contain_their_range() {
        let whole = HttpAnswer::new(200, "application/octet-stream", &b"0123456789"[..]);
        let part = answer_range(whole.clone(), Some("bytes=2-4"));
        assert_eq!((part.status, &part.body[..]), (206, &b"234"[..]));
        assert!(part.headers.contains(&("Content-Range", "bytes 2-4/10".to_owned())));
        assert_eq!(answer_range(whole.clone(), Some("bytes=99-")).status, 416);
        assert_eq!(answer_range(whole, None).status, 200);
    }
}
