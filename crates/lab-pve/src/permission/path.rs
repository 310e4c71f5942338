//! Paths of access control lists.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Normalized form of a path; `None` if the path is invalid.
pub(crate) fn normalize(path: &str) -> Option<String> {
    // `0` is false in Perl, so Proxmox rejects it like an empty path.
    if matches!(path, "" | "0") || !path.chars().all(is_path_char) {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Some(format!("/{}", parts.join("/")))
}

fn is_path_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/')
}

/// Whether a normalized path can have an access control list.
pub(crate) fn is_acl_path(path: &str) -> bool {
    const NAME: &str = r"[A-Za-z0-9._-]+";
    static PATH: LazyLock<Regex> = LazyLock::new(|| {
        let forms = [
            "/".to_owned(),
            format!("/access(/(groups|realm)(/{NAME})?)?"),
            format!("/nodes(/{NAME})?"),
            format!("/pool(/{NAME}){{0,3}}"),
            "/sdn(/controllers(/[A-Za-z0-9_-]+)?)?".to_owned(),
            "/sdn/(dns|fabrics|ipams|prefix-lists|route-maps)(/[A-Za-z0-9]+)?".to_owned(),
            format!("/sdn/zones(/{NAME}){{0,2}}"),
            format!("/sdn/zones/{NAME}/{NAME}/[1-9][0-9]{{0,3}}"),
            format!("/storage(/{NAME})?"),
            "/vms(/[1-9][0-9]{2,})?".to_owned(),
            format!("/mapping(/{NAME}){{0,2}}"),
        ];
        Regex::new(&format!("^({})$", forms.join("|"))).expect("invariant: a valid pattern")
    });
    PATH.is_match(path)
}
