//! CEL expressions: parsing, type checking and evaluation.
//!
//! Talos checks the types in an expression before it accepts a config, and this module does the same check. The lab
//! uses [`evaluate()`] and [`link_mac()`] to find the disks or the network card that an expression selects.

mod check;
mod env;
mod evaluate;
mod lexer;
mod link;
mod link_mac;
mod parser;
mod types;

pub(crate) use env::Environment;
pub use evaluate::{Value, evaluate};
pub use link_mac::link_mac;
use types::CelType;

/// Required result type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultType {
    Bool,
    Double,
}

/// Problem of an expression, with its byte position.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    at: usize,
    reason: String,
}

impl Problem {
    fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// Checks an expression. The error is the text that cel-go prints.
pub(crate) fn check(
    source: &str,
    environment: &Environment,
    wanted: ResultType,
) -> Result<(), String> {
    let show = |problem: &Problem| show(source, problem);
    let expression = parser::parse(source).map_err(|problem| show(&problem))?;
    let found = check::type_of(&expression, environment)
        .map_err(|problems| problems.iter().map(show).collect::<Vec<_>>().join("\n"))?;
    let fits = match wanted {
        ResultType::Bool => found == CelType::Bool,
        ResultType::Double => found == CelType::Double,
    };
    if fits {
        return Ok(());
    }
    let wanted = match wanted {
        ResultType::Bool => "bool",
        ResultType::Double => "double",
    };
    Err(format!("expression output type is {found}, expected {wanted}"))
}

fn show(source: &str, problem: &Problem) -> String {
    let before = &source[..problem.at.min(source.len())];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[start..].chars().count();
    let text = source[start..].lines().next().unwrap_or_default();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{line}:{}: {}\n | {text}\n | {dots}^", column + 1, problem.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(source: &str) -> Result<(), String> {
        check(source, &Environment::disk(), ResultType::Bool)
    }

    #[test]
    fn sensible_expressions_pass() {
        for source in [
            "system_disk",
            "!system_disk && disk.transport == 'nvme'",
            "disk.size > 120u * GB && disk.size < 1u * TB",
            "disk.transport == \"nvme\" && disk.rotational == false",
            "disk.model.startsWith('Samsung') || glob('WDC*', disk.model)",
            "'/dev/disk/by-id/x' in disk.symlinks",
            "disk.symlinks.exists(s, s.contains('nvme'))",
            "disk.dev_path == '/dev/sda' ? true : false",
            "size(disk.serial) > 3 && disk.serial.matches('^S.*$')",
            "disk.size >= 10u * GiB // comment",
            "has(disk.wwid)",
            "disk.symlinks[0] != ''",
            "uint(5) < disk.size",
            "true",
        ] {
            assert_eq!(disk(source), Ok(()), "{source}");
        }
        let link = "mac(link.permanent_addr) == '00:1a:2b:3c:4d:5e' && link.driver == 'virtio'";
        assert_eq!(check(link, &Environment::link(), ResultType::Bool), Ok(()));
        let rank = "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5, Guaranteed: \
                    0.0, Podruntime: 0.0, System: 0.0}[class] * \
                    double(memory_current.orValue(0u))";
        assert_eq!(check(rank, &Environment::oom_ranking(), ResultType::Double), Ok(()));
        let trigger = "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: \
                       4.0}) > 3000.0 || memory_full_avg10 > 12.0 && d_memory_full_avg10 > 0.0 && \
                       time_since_trigger > duration(\"500ms\")";
        assert_eq!(check(trigger, &Environment::oom_trigger(), ResultType::Bool), Ok(()));
    }

    #[test]
    fn nonsense_is_rejected() {
        for source in [
            "",
            "disk.",
            "disk.size >",
            "disk.nope == 1",
            "nope",
            "disk.size > 100",
            "disk.size > 100 * GB",
            "disk.size",
            "disk.model == 1",
            "disk.transport = 'nvme'",
            "(system_disk",
            "glob('a')",
            "disk.model.nope()",
            "!disk.size",
            "system_disk && 1",
            "'unterminated",
            "disk.rotational || disk.model",
            "system_disk ? 1 : 'a'",
            "true true",
            "1 + 'a' == 2",
        ] {
            assert!(disk(source).is_err(), "{source}");
        }
        assert_eq!(
            disk("disk.nope == 1").unwrap_err(),
            "ERROR: <input>:1:5: undefined field 'nope'\n | disk.nope == 1\n | ....^"
        );
    }

    proptest::proptest! {
        #[test]
        fn checking_never_panics(source in "[ -~\u{e4}]{0,40}") {
            let _verdict = disk(&source);
        }
    }
}
