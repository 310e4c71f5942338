//! URLs of requests, and targets of redirects. Errors show no part of a URL that may be a secret.

use talmox_values::HttpUrl;
use talmox_values::url::shown_url;

use super::WebError;

pub(super) fn parse(text: &str) -> Result<HttpUrl, WebError> {
    HttpUrl::parse(text).map_err(|_| WebError::BadUrl { url: shown_url(text) })
}

/// The target of a `Location` header. A redirect from https to http is an error, because it would send the request, and the
/// secrets in its URL, unencrypted.
pub(super) fn follow(from: &HttpUrl, location: &str) -> Result<HttpUrl, WebError> {
    let next = from.join(location).map_err(|_| WebError::BadUrl { url: shown_url(location) })?;
    if from.https && !next.https {
        return Err(WebError::BadUrl { url: next.shown() });
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_never_lead_from_https_to_http() {
        let url = parse("https://a/x/y?z").unwrap();
        assert_eq!(follow(&url, "https://cdn/b?sig=1").unwrap().host, "cdn");
        assert_eq!(follow(&url, "/b").unwrap().shown(), "https://a/b");
        assert_eq!(follow(&url, "b").unwrap().shown(), "https://a/x/b");
        assert_eq!(follow(&url, "//c/b").unwrap().shown(), "https://c/b");
        assert!(matches!(follow(&url, "http://a/b"), Err(WebError::BadUrl { .. })));
        let plain = parse("http://a/x").unwrap();
        assert_eq!(follow(&plain, "https://a/x").unwrap().shown(), "https://a/x");
    }

    #[test]
    fn errors_show_no_secrets() {
        let error = parse("https://me:hunter2@x/y?sig=hunter3").unwrap_err().to_string();
        assert!(!error.contains("hunter") && error.contains("https://x/y"), "{error}");
        let url = parse("https://a/").unwrap();
        let error = follow(&url, "http://me:hunter2@x/y?sig=hunter3").unwrap_err().to_string();
        assert!(!error.contains("hunter") && error.contains("http://x/y"), "{error}");
    }
}
