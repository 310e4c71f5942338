//! Text of an amount of memory.

/// An amount of memory in MiB as text: `6 GiB`, or `1536 MiB` if it is not a whole number of GiB.
pub(crate) fn memory_text(mib: u64) -> String {
    const GIB: u64 = 1024;
    if mib >= GIB && mib.is_multiple_of(GIB) {
        format!("{} GiB", mib / GIB)
    } else {
        format!("{mib} MiB")
    }
}

#[cfg(test)]
mod tests {
    use super::memory_text;

    #[test]
    fn whole_gib_are_shown_in_gib() {
        for (mib, text) in [(0, "0 MiB"), (512, "512 MiB"), (1024, "1 GiB"), (1536, "1536 MiB")] {
            assert_eq!(memory_text(mib), text);
        }
        assert_eq!(memory_text(131_072), "128 GiB");
    }
}
