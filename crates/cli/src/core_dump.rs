//! Core dumps are turned off: this process holds the keys of clusters.

/// Keeps the memory of this process out of core files, and out of reach of other processes of the same user.
///
/// The limit alone is not enough on Linux: it does not hold for a `core_pattern` that pipes dumps into a program. Errors
/// are ignored, since no command fails for want of this.
pub(crate) fn disable() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).ok();
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // A user who runs it under strace or a debugger could see nothing any more.
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
    fn neither_a_file_nor_a_program_gets_a_dump() {
        super::disable();
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
        if !super::is_traced() {
            assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        }
    }
}
