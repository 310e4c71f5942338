//! Deactivation of core dumps, because this process holds private keys of clusters.

/// Disables core dumps, and keeps other processes of the same user from reading the memory of this process.
///
/// On Linux, the resource limit is not enough, because it does not apply to a `core_pattern` that pipes dumps into a
/// program. Errors are ignored, because talmox works without this protection.
pub(crate) fn disable() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).ok();
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // A traced process stays dumpable, because otherwise strace and debuggers would stop working.
        if !is_traced() {
            set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        }
    }
}

#[cfg(target_os = "linux")]
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

    #[test]
    fn core_dumps_are_disabled_for_files_and_pipes() {
        super::disable();
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
        if !super::is_traced() {
            assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        }
    }
}
