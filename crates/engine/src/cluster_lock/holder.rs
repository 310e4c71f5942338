//! The run that holds a cluster lock, and its text form in the comment of the lock's pool.

use std::fmt;

/// Start of every comment of a lock, with the version of its format.
const HEAD: &str = "talmox-lock/1";
const LONGEST_WORD: usize = 64;

/// Identity of a process on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMark {
    /// Scope of the process id: one boot of one machine, one PID namespace, one user.
    pub space: String,
    /// Start time of the process on the clock of the kernel. It distinguishes processes with the same id, because process ids
    /// are reused.
    pub started: String,
}

/// The run that holds a lock. The fields are shown to users and contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub cluster: String,
    pub command: String,
    pub user: String,
    pub host: String,
    pub pid: u32,
    /// Random number of the run, which is part of the names of its pools.
    pub run: String,
    /// Time at which the run took the lock, in UTC, as text.
    pub since: String,
    /// Process that holds the lock. None if the operating system cannot identify processes beyond their ids.
    pub process: Option<ProcessMark>,
}

impl Holder {
    /// The comment of the pool of this lock. `beat` counts the renewals, so that each renewal changes the comment.
    pub(super) fn comment(&self, beat: u64, now: &str) -> String {
        let Self { cluster, command, user, host, pid, run, since, process } = self;
        let mut text = format!(
            "{HEAD} cluster={} command={} user={} host={} pid={pid} run={} since={} renewed={} beat={beat}",
            word(cluster),
            word(command),
            word(user),
            word(host),
            word(run),
            word(since),
            word(now),
        );
        if let Some(ProcessMark { space, started }) = process {
            text.push_str(&format!(" space={} started={}", word(space), word(started)));
        }
        text
    }

    /// Parses a comment. None if it is not in this format.
    pub(super) fn parse(comment: &str) -> Option<Self> {
        let rest = comment.strip_prefix(HEAD)?.strip_prefix(' ')?;
        let field = |key: &str| {
            let words = rest.split_ascii_whitespace().filter_map(|word| word.split_once('='));
            words.into_iter().find(|(name, _)| *name == key).map(|(_, value)| word(value))
        };
        let process = field("space")
            .zip(field("started"))
            .map(|(space, started)| ProcessMark { space, started });
        Some(Self {
            cluster: field("cluster")?,
            command: field("command")?,
            user: field("user")?,
            host: field("host")?,
            pid: field("pid")?.parse().ok()?,
            run: field("run")?,
            since: field("since")?,
            process,
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, command, user, host, pid, since, .. } = self;
        write!(f, "`talmox {command}` of {cluster} by {user}@{host} (process {pid}, since {since})")
    }
}

/// Converts a text into one word without special characters, because other users can edit the comment of a pool, and talmox
/// shows it on a terminal.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| {
        let is_plain = c.is_ascii_alphanumeric() || "._:@+-".contains(c);
        if is_plain { c } else { '_' }
    };
    let word: String = text.chars().take(LONGEST_WORD).map(plain).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder {
            cluster: "home".to_owned(),
            command: "up".to_owned(),
            user: "ann".to_owned(),
            host: "laptop".to_owned(),
            pid: 4711,
            run: "0123abcd".to_owned(),
            since: "2026-11-17T04:20:00Z".to_owned(),
            process: Some(ProcessMark { space: "ffee".to_owned(), started: "12345".to_owned() }),
        }
    }

    #[test]
    fn a_comment_names_the_holder_of_the_lock_and_can_be_parsed() {
        let comment = holder().comment(3, "2026-11-17T04:21:00Z");
        assert_eq!(Holder::parse(&comment), Some(holder()));
        assert_ne!(comment, holder().comment(4, "2026-11-17T04:21:00Z"));
        let without = Holder { process: None, ..holder() };
        assert_eq!(Holder::parse(&without.comment(0, "x")), Some(without));
        let shown = "`talmox up` of home by ann@laptop (process 4711, since 2026-11-17T04:20:00Z)";
        assert_eq!(holder().to_string(), shown);
    }

    #[test]
    fn a_text_becomes_one_word_and_escapes_never_reach_a_terminal() {
        let odd =
            Holder { user: "ann\u{1b}[2J beat=1".to_owned(), host: String::new(), ..holder() };
        let read = Holder::parse(&odd.comment(0, "x")).unwrap();
        assert_eq!((read.user.as_str(), read.host.as_str()), ("ann__2J_beat_1", "_"));
        let forged = holder().comment(0, "x").replace("ann", "a\u{1b}]0;x");
        assert!(!Holder::parse(&forged).unwrap().to_string().contains('\u{1b}'));
    }

    #[test]
    fn other_comments_are_not_a_holder() {
        for comment in
            ["", "mine", "talmox-lock/2 cluster=home", "talmox-lock/1", "talmox-lock/1 cluster=a"]
        {
            assert_eq!(Holder::parse(comment), None, "{comment}");
        }
    }
}
