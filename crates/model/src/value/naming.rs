//! Rules for the names and values in tables.

use talmox_values::UrlError;
use talmox_values::url::parse_authority;

use super::{label_key, label_value};
use crate::language::Naming;

/// Declares a rule for the names in a table.
macro_rules! naming {
    (
        $(#[doc = $doc:literal])+ $name:ident, $expected:literal, $pattern:literal, $check:expr
        $(, value: $value:path, $value_pattern:literal)?
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl Naming for $name {
            const PATTERN: Option<&'static str> = Some($pattern);
            const EXPECTED: &'static str = $expected;

            fn check(name: &str) -> Result<(), String> {
                let check: fn(&str) -> Result<(), String> = $check;
                check(name)
            }

            $(
                const VALUE_PATTERN: Option<&'static str> = Some($value_pattern);

                fn check_value(text: &str) -> Result<(), String> {
                    $value(text)
                }
            )?
        }
    };
}

naming! {
    /// Keys of annotations.
    AnnotationKey, "letters, digits, `-`, `_` and `.`, such as `example.com/rack`",
    "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", label_key
}

naming! {
    /// Keys of labels. The rule also covers the values of labels.
    LabelKey, "letters, digits, `-`, `_` and `.`, such as `rack` or `example.com/rack`",
    "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", label_key,
    value: label_value, "^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$"
}

naming! {
    /// Names of kernel parameters (sysctl).
    Sysctl, "the name as sysctl does, such as `net.ipv4.ip_forward`", "^[A-Za-z0-9_./*-]+$",
    |text| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '*' | '-');
        if !text.is_empty() && text.chars().all(is_good) { Ok(()) } else {
            Err(format!("`{}` is not a kernel setting", text.escape_debug()))
        }
    }
}

naming! {
    /// Arguments of the kubelet.
    KubeletArgument, "the argument without the leading dashes, such as `max-pods`", "^[a-z][a-z0-9-]*$",
    |text| {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase());
        if starts_well && text.chars().all(is_good) { Ok(()) } else {
            Err(format!("`{}` is not an argument of the kubelet", text.escape_debug()))
        }
    }
}

naming! {
    /// Key or value of an entry of `reach`: a host or an address, optionally with a port.
    Target, "a host, an address or host:port, such as `127.0.0.1:50000`",
    "^[A-Za-z0-9._:\\[\\]-]+$", target,
    value: target, "^[A-Za-z0-9._:\\[\\]-]+$"
}

fn target(text: &str) -> Result<(), String> {
    // An IPv6 address without a port needs no brackets.
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(());
    }
    match parse_authority(text) {
        Ok(_) => Ok(()),
        Err(UrlError::Malformed) => {
            Err("the value is not a host, an address or host:port".to_owned())
        }
        Err(problem) => Err(problem.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_kubernetes_and_the_kernel() {
        for good in ["a", "example.com/a", "node.longhorn.io/create-default-disk", "A_b.c"] {
            assert_eq!(LabelKey::check(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "/a", "a/", "a/b/c", "-a", "Example.com/a", "ä", &"x".repeat(64)] {
            assert!(LabelKey::check(bad).is_err(), "{bad}");
        }
        assert!(Sysctl::check("net.ipv4.ip_forward").is_ok() && Sysctl::check("a b").is_err());
        assert!(KubeletArgument::check("max-pods").is_ok());
        for bad in ["--max-pods", "max pods", ""] {
            assert!(KubeletArgument::check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reach_targets_are_hosts_with_or_without_a_port() {
        for good in ["10.0.0.1", "10.0.0.1:6443", "fd00::1", "[fd00::1]:50000", "host", "host:1"] {
            assert!(target(good).is_ok(), "{good}");
        }
        for bad in ["", "https://x", "a b", "x:y", "u:p@x"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
