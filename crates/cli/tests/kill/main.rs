//! Kills `talmox up` with SIGKILL at a dozen points of its run, in a lab that keeps running. When the same command is run
//! again, the cluster must have the same state as after an undisturbed run.
//!
//! A kill point is a number of reported steps or of changes, so the tests do not depend on timing.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod environment;
#[path = "../common/lab_state.rs"]
mod lab_state;

use std::sync::OnceLock;

use environment::{ClusterSnapshot, KEYS, KillPoint, SECRETS, TestEnvironment, is_of_step};

/// Result of an undisturbed run.
struct ReferenceRun {
    snapshot: ClusterSnapshot,
    /// Number of lines that report the start or end of a step.
    step_lines: usize,
    /// Number of API calls that make a change.
    changes: usize,
}

fn reference_run() -> &'static ReferenceRun {
    static ONCE: OnceLock<ReferenceRun> = OnceLock::new();
    ONCE.get_or_init(|| {
        let environment = TestEnvironment::start();
        let lines = environment.up_to_the_end();
        let changes = environment.changes();
        let snapshot = environment.snapshot();
        snapshot.assert_complete();
        let step_lines = lines.iter().filter(|line| is_of_step(line)).count();
        assert!(step_lines > 60 && changes > 15, "{step_lines} {changes}");
        ReferenceRun { snapshot, step_lines, changes }
    })
}

/// Kills a run at each of these points, each in its own environment, and runs the same command again.
fn killed_at_each(places: [KillPoint; 3]) {
    places.into_iter().for_each(killed_at);
}

fn killed_at(place: KillPoint) {
    let environment = TestEnvironment::start();
    let secrets = environment.read(SECRETS);
    environment.up_killed(place);
    environment.up_to_the_end();
    assert_eq!(environment.snapshot(), reference_run().snapshot, "{place:?}");
    assert_eq!(environment.read(SECRETS), secrets, "{place:?}");
    environment.assert_settled();
}

/// Kill point after `part` eighths of the step lines.
fn eighth(part: usize) -> KillPoint {
    KillPoint::StepLines(reference_run().step_lines * part / 8)
}

fn fifth(part: usize) -> KillPoint {
    KillPoint::Changes(reference_run().changes * part / 5)
}

#[test]
fn a_run_killed_at_its_start_is_resumed() {
    killed_at_each([KillPoint::StepLines(1), eighth(1), fifth(1)]);
}

#[test]
fn a_run_killed_while_vms_are_created_is_resumed() {
    killed_at_each([eighth(2), fifth(2), eighth(3)]);
}

#[test]
fn a_run_killed_while_machines_boot_is_resumed() {
    killed_at_each([fifth(3), eighth(4), fifth(4)]);
}

#[test]
fn a_run_killed_while_the_cluster_forms_is_resumed() {
    killed_at_each([eighth(5), eighth(6), eighth(7)]);
}

#[test]
fn a_run_killed_several_times_is_resumed() {
    let environment = TestEnvironment::start();
    for place in [
        KillPoint::StepLines(3),
        KillPoint::StepLines(5),
        KillPoint::StepLines(8),
        KillPoint::StepLines(4),
    ] {
        environment.up_killed(place);
    }
    environment.up_to_the_end();
    assert_eq!(environment.snapshot(), reference_run().snapshot);
    environment.assert_settled();
}

/// Secrets are the identity of a cluster. After a kill, generated secrets are kept, and missing secrets are generated
/// once.
#[test]
fn a_run_killed_while_it_generates_secrets_is_resumed() {
    let environment = TestEnvironment::without_secrets();
    environment.up_killed(KillPoint::FileExists(KEYS));
    let key = environment.read(KEYS);
    environment.up_killed(KillPoint::FileExists(SECRETS));
    let secrets = environment.read(SECRETS);
    environment.up_killed(KillPoint::Changes(3));
    environment.up_to_the_end();
    assert_eq!((environment.read(KEYS), environment.read(SECRETS)), (key, secrets));
    environment.snapshot().assert_complete();
    environment.assert_settled();
}
