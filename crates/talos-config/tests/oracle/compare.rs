//! Comparison of this library with Talos.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};

use serde_json::json;

use crate::options::GenCase;
use crate::patches::{Base, PatchCase};
use crate::random::Random;
use crate::shrink::{fewest_lines, first_difference, indent, smallest};
use crate::talos::Talos;
use crate::{Report, library};

/// Result of a case in which the library and Talos agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseResult {
    Same,
    Rejected,
    /// Talos crashed. The library must not crash.
    Crashed,
}

/// `Ok` if the library and Talos agree, otherwise a description of the difference.
type Verdict = Result<CaseResult, String>;

const MODES: &[&str] = &["metal", "cloud", "container"];
/// Smallest config. If a case also fails with it, no generated config is needed.
const TINY: &str = "machine:\n    type: worker\n";

/// Comparison of the library with one version of Talos's machinery.
#[derive(Debug)]
pub(crate) struct Comparison {
    talos: Talos,
    seed: u64,
    secrets: String,
    bases: HashMap<Base, String>,
}

impl Comparison {
    pub(crate) fn new(mut talos: Talos, seed: u64) -> Self {
        let secrets = talos.new_secrets();
        Self { talos, seed, secrets, bases: HashMap::new() }
    }

    pub(crate) fn run(&mut self, cases: usize, report: &mut Report) {
        for number in 0..cases {
            let id = format!("{number}, machinery {}", self.talos.version());
            self.generate(number, &id, report);
            self.patch(number, &id, report);
        }
    }

    fn generate(&mut self, number: usize, id: &str, report: &mut Report) {
        let mut random = Random::of_case(self.seed, "gen", number);
        let case =
            GenCase::random(&mut random, self.talos.minor(), &self.secrets, library::OPTIONS);
        match self.generated(&case) {
            Ok(result) => report.pass("gen", result),
            Err(_) => report.fail("gen", id, || {
                let plain = self.secrets.clone();
                let simpler = |case: &GenCase| case.simpler(&plain);
                let case = smallest(case, simpler, |case| self.generated(case).err());
                format!("{case}\n{}", self.generated(&case).err().unwrap_or_default())
            }),
        }
    }

    fn generated(&mut self, case: &GenCase) -> Verdict {
        let expected = self.talos.generate(&case.request());
        let actual = guarded(|| library::generate(case));
        // Both roles are compared at once. The context of a difference shows the role.
        let both = |roles: [String; 2]| roles.join("\n===== worker\n");
        agreement(&expected.map(both), &actual.map(both))
    }

    fn patch(&mut self, number: usize, id: &str, report: &mut Report) {
        let mut random = Random::of_case(self.seed, "patch", number);
        let case = PatchCase::random(&mut random, self.talos.minor());
        let config = self.base(case.base);
        let verdict = self.patched(&config, &case.texts());
        match verdict {
            Ok(result) => report.pass("patch", result),
            Err(_) => report.fail("patch", id, || self.smallest_patch(case.clone())),
        }
        // The patched config is also used to compare validation.
        if verdict == Ok(CaseResult::Same) {
            let patched = self.talos.patch(&config, &case.texts());
            let patched =
                patched.expect("invariant: Talos gives the same answer to the same request");
            self.validate(&patched, random.pick(MODES), id, report);
        }
    }

    fn patched(&mut self, config: &str, patches: &[String]) -> Verdict {
        let expected = self.talos.patch(config, patches);
        let actual = guarded(|| library::patch(self.talos.version(), config, patches));
        agreement(&expected, &actual)
    }

    fn smallest_patch(&mut self, case: PatchCase) -> String {
        let case = smallest(case, PatchCase::simpler, |case| {
            let config = self.base(case.base);
            self.patched(&config, &case.texts()).err()
        });
        let (mut onto, mut config) = (case.base.to_string(), self.base(case.base));
        let mut texts = case.texts();
        if self.patched(TINY, &texts).is_err() {
            (onto, config) = ("a config with nothing but a type".to_owned(), TINY.to_owned());
        }
        for number in 0..texts.len() {
            let mut candidate = texts.clone();
            texts[number] = fewest_lines(&texts[number], |fewer| {
                fewer.clone_into(&mut candidate[number]);
                self.patched(&config, &candidate).is_err()
            });
        }
        let why = self.patched(&config, &texts).err().unwrap_or_default();
        let patches: String =
            texts.iter().map(|text| format!("patch:\n{}", indent(text))).collect();
        format!("onto: {onto}\n{patches}{why}")
    }

    fn validate(&mut self, config: &str, mode: &str, id: &str, report: &mut Report) {
        match self.validated(config, mode) {
            Ok(result) => report.pass("validate", result),
            Err(_) => report.fail("validate", id, || {
                let config = fewest_lines(config, |fewer| self.validated(fewer, mode).is_err());
                let why = self.validated(&config, mode).err().unwrap_or_default();
                format!("mode {mode}:\n{}{why}", indent(&config))
            }),
        }
    }

    fn validated(&mut self, config: &str, mode: &str) -> Verdict {
        let expected = self.talos.validate(config, mode);
        let actual = guarded(|| library::validate(self.talos.version(), config, mode));
        match (&expected, &actual) {
            (_, Err(error)) if error.starts_with(PANICKED) => Err(format!("{error}\n")),
            (Err(error), _) if error.starts_with("crash") => Ok(CaseResult::Crashed),
            (Ok(_), Ok(_)) => Ok(CaseResult::Same),
            (Err(expected), Err(actual)) if stage(expected) == stage(actual) => {
                Ok(CaseResult::Rejected)
            }
            _ => Err(format!("talos: {expected:?}\nlibrary: {actual:?}\n")),
        }
    }

    /// Generated config that a case patches. Talos generates it, so that the generator of the library does not affect
    /// the case.
    fn base(&mut self, base: Base) -> String {
        if let Some(config) = self.bases.get(&base) {
            return config.clone();
        }
        let options = if base.rich {
            json!({
                "install_disk": "/dev/sda",
                "additional_sans": ["10.0.0.20", "talos.example.org"],
                "sysctls": {"net.core.somaxconn": "1024"},
                "registry_mirrors": {"docker.io": ["https://mirror.example"]},
                "kubelet_extra_mounts": [
                    {"destination": "/var/lib/longhorn", "source": "/var/lib/longhorn", "options": ["bind"]},
                ],
                "cni": {"name": "custom", "urls": ["https://example.com/cni.yaml"]},
            })
        } else {
            json!({"install_disk": "/dev/sda"})
        };
        let roles = self.talos.generate(&json!({
            "op": "gen",
            "contract": format!("v1.{}", base.contract_minor),
            "secrets": self.secrets,
            "cluster_name": "home",
            "endpoint": "https://10.0.0.20:6443",
            "kubernetes_version": "1.34.0",
            "options": options,
        }));
        let [control_plane, worker] = roles.expect("Talos generates from plain options");
        let config = if base.worker { worker } else { control_plane };
        self.bases.insert(base, config.clone());
        config
    }
}

const PANICKED: &str = "the library panicked";

/// Runs a function of the library. A panic is a failure of the case and does not end the run.
fn guarded<T>(ask: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // The report contains the panic message, so it is not printed.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let answer = panic::catch_unwind(AssertUnwindSafe(ask));
    panic::set_hook(hook);
    answer.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
        Err(format!("{PANICKED}: {}", text.unwrap_or("without a message")))
    })
}

/// Compares two results. They agree if both have the same bytes, or if both are rejections.
fn agreement(expected: &Result<String, String>, actual: &Result<String, String>) -> Verdict {
    match (expected, actual) {
        (_, Err(error)) if error.starts_with(PANICKED) => Err(format!("{error}\n")),
        (Err(error), _) if error.starts_with("panic:") => Ok(CaseResult::Crashed),
        (Err(_), Err(_)) => Ok(CaseResult::Rejected),
        (Ok(expected), Ok(actual)) if expected == actual => Ok(CaseResult::Same),
        (Ok(expected), Ok(actual)) => Err(first_difference(expected, actual)),
        (Ok(_), Err(actual)) => Err(format!("talos accepts it\nlibrary: {actual}\n")),
        (Err(expected), Ok(_)) => Err(format!("talos: {expected}\nthe library accepts it\n")),
    }
}

/// Stage of the validation at which a config was rejected. The text of the rejection begins with it.
fn stage(refusal: &str) -> &str {
    refusal.split(':').next().unwrap_or_default()
}
