//! Oracle: a process with Talos's machinery. It receives one request per line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Text with which Talos rejected the input.
pub(crate) type Rejection = String;

#[derive(Debug)]
pub(crate) struct Talos {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    version: String,
}

impl Talos {
    pub(crate) fn start(path: &str) -> Result<Self, String> {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {path}: {error}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("invariant: stdout is piped");
        let mut talos =
            Self { child, stdin, stdout: BufReader::new(stdout), version: String::new() };
        talos.version = text(&talos.ask(&json!({"op": "version"})), "version");
        Ok(talos)
    }

    /// Version of the machinery, such as `v1.13.6`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Minor version of the machinery. It is also the newest contract that the machinery supports.
    pub(crate) fn minor(&self) -> u32 {
        let minor = self.version.split('.').nth(1).and_then(|minor| minor.parse().ok());
        minor.unwrap_or_else(|| panic!("unexpected machinery version {:?}", self.version))
    }

    /// Sends one request. If the process has ended, the test ends too, because nothing can be compared any more.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let stdin = self.stdin.as_mut().expect("invariant: open until dropped");
        writeln!(stdin, "{request}").expect("the oracle takes requests");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the oracle answers");
        let answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the oracle ended or answered {line:?}: {error}"));
        if let Some(error) = answer["error"].as_str() {
            assert!(
                !error.starts_with("bad request"),
                "the driver sent an invalid request: {error}"
            );
        }
        answer
    }

    /// Secrets bundle with real keys, because validation checks the keys.
    pub(crate) fn new_secrets(&mut self) -> String {
        text(&self.ask(&json!({"op": "new_secrets", "contract": "v1.12"})), "bundle")
    }

    /// Configs of the control plane and the worker.
    pub(crate) fn generate(&mut self, request: &Value) -> Result<[String; 2], Rejection> {
        let answer = self.ask(request);
        check_rejection(&answer)?;
        Ok([text(&answer, "controlplane"), text(&answer, "worker")])
    }

    pub(crate) fn patch(&mut self, config: &str, patches: &[String]) -> Result<String, Rejection> {
        let answer = self.ask(&json!({"op": "patch", "config": config, "patches": patches}));
        check_rejection(&answer)?;
        Ok(text(&answer, "output"))
    }

    /// Validates a config. `Ok` contains the warnings of a valid config. The text of a rejection begins with its stage.
    pub(crate) fn validate(&mut self, config: &str, mode: &str) -> Result<Vec<String>, Rejection> {
        let answer = self.ask(&json!({"op": "validate", "config": config, "mode": mode}));
        if answer["valid"].as_bool() == Some(true) {
            let warnings = answer["warnings"].as_array().map_or(&[][..], Vec::as_slice);
            return Ok(warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        }
        Err(format!("{}: {}", answer["stage"].as_str().unwrap_or("crash"), text(&answer, "error")))
    }
}

impl Drop for Talos {
    fn drop(&mut self) {
        // The process ends at the end of its input. Waiting for it prevents a zombie process.
        drop(self.stdin.take());
        self.child.wait().ok();
    }
}

fn check_rejection(answer: &Value) -> Result<(), Rejection> {
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(()),
    }
}

fn text(answer: &Value, key: &str) -> String {
    answer[key].as_str().unwrap_or_else(|| panic!("no {key} in {answer}")).to_owned()
}
