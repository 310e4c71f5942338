//! Checksums that the source of an image publishes beside the image.

use talmox_plan::plan::FetchImage;
use talmox_pve::api::storage::Checksum;

use super::super::{StepContext, StepError};
use super::image_check::ExpectedImage;

/// The checksum of an image, from the inventory or from the source of the image. A source without checksums is not an error,
/// because the connection is secured.
pub(super) async fn find(
    step: &FetchImage,
    expected: &ExpectedImage,
    context: &StepContext,
) -> Result<Option<Checksum>, StepError> {
    if step.checksum.is_some() || !expected.is_reachable {
        return Ok(step.checksum.clone());
    }
    let path = step.url.split(['?', '#']).next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    for url in &step.sums {
        let Ok(bytes) = context.wait(context.run.web.get(url)).await? else { continue };
        if let Some(found) = of_file(&String::from_utf8_lossy(&bytes), file) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The checksum of a file in a list as `sha256sum` writes it (`HASH *NAME`). If the list is a single hash, that hash.
fn of_file(list: &str, file: &str) -> Option<Checksum> {
    let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_it = |name: &str| {
        let name = name.strip_prefix('*').unwrap_or(name);
        name.strip_prefix("./").unwrap_or(name) == file
    };
    let named = lines.find_map(|words| match words[..] {
        [hash, name] if is_it(name) => Some(hash.to_owned()),
        _ => None,
    });
    let only = || {
        let mut words = list.split_whitespace();
        let first = words.next()?;
        words.next().is_none().then(|| first.to_owned())
    };
    let value = named.or_else(only)?.to_ascii_lowercase();
    let algorithm = match value.len() {
        64 => "sha256",
        128 => "sha512",
        _ => return None,
    };
    let is_hash = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Checksum { algorithm: algorithm.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_file_counts() {
        let (one, other) = ("a".repeat(64), "B".repeat(64));
        let list = format!(
            "{one} *noble-server-cloudimg-arm64.img\n{other}  ./noble-server-cloudimg-amd64.img\n"
        );
        let found = |file: &str| of_file(&list, file).map(|sum| sum.value);
        assert_eq!(found("noble-server-cloudimg-arm64.img"), Some(one.clone()));
        assert_eq!(found("noble-server-cloudimg-amd64.img"), Some(other.to_lowercase()));
        assert_eq!(found("noble-server-cloudimg-s390x.img"), None);
        let long = of_file(&format!("{}\n", "c".repeat(128)), "nocloud-amd64.qcow2").unwrap();
        assert_eq!(long.algorithm, "sha512");
    }

    #[test]
    fn a_text_that_is_not_a_checksum_is_ignored() {
        let short = "a".repeat(63);
        for list in ["", "<html>no</html>", &short, &format!("{short}g"), "a b c"] {
            assert_eq!(of_file(list, "b"), None, "{list}");
        }
    }
}
