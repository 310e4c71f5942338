use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BadId, NodeName};

/// Task ID (UPID) of Proxmox.
///
/// The text is kept as the server sent it, because requests must contain exactly this text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upid {
    text: Arc<str>,
    node: NodeName,
    started: u64,
}

impl Upid {
    /// Builds a UPID in the form that servers use.
    ///
    /// `started` is in seconds since 1970. `pstart` is in ticks since the boot of the host.
    pub fn new(
        node: &NodeName,
        (pid, pstart, started): (u64, u64, u64),
        kind: &str,
        id: &str,
        user: &str,
    ) -> Result<Self, BadId> {
        format!("UPID:{node}:{pid:08X}:{pstart:08X}:{started:08X}:{kind}:{id}:{user}:").parse()
    }

    /// Node that runs the task. Only this node can report its state.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Start time, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Task type, such as `qmcreate`.
    pub fn kind(&self) -> &str {
        self.part(5)
    }

    /// Object of the task, such as a vmid. The text may be empty.
    pub fn id(&self) -> &str {
        self.part(6)
    }

    /// User that started the task: `user@realm` or `user@realm!token`.
    pub fn user(&self) -> &str {
        self.part(7)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn part(&self, index: usize) -> &str {
        self.text.split(':').nth(index).unwrap_or_default()
    }
}

impl FromStr for Upid {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || {
            let rule = "UPID:node:pid:pstart:starttime:type:id:user: with hexadecimal numbers";
            BadId::new(text, "a task", rule)
        };
        let parts: Vec<&str> = text.split(':').collect();
        let [head, node, pid, pstart, started, kind, id, user, tail] = parts[..] else {
            return Err(bad());
        };
        // On hosts with a long uptime, the ticks since boot exceed 32 bits. None of the numbers has a sign.
        let number = |text: &str| {
            let is_hex =
                (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(text, 16).ok().filter(|_| is_hex)
        };
        let is_odd = |text: &str| text.contains(|c: char| c.is_whitespace() || c == '/');
        let is_sound = head == "UPID"
            && tail.is_empty()
            && !kind.is_empty()
            && !user.is_empty()
            && ![kind, id, user].into_iter().any(is_odd)
            && number(pid).is_some()
            && number(pstart).is_some();
        let started = number(started).filter(|_| is_sound).ok_or_else(bad)?;
        let node = node.parse().map_err(|_| bad())?;
        Ok(Self { text: text.into(), node, started })
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

json_text!(Upid);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_upid_contains_node_type_object_and_user() {
        let text = "UPID:pve1:0001A2B3:1234ABCDE:65F0C0DE:qmcreate:300:talmox@pve!ci:";
        let upid: Upid = text.parse().unwrap();
        assert_eq!(upid.node().as_str(), "pve1");
        assert_eq!((upid.kind(), upid.id(), upid.user()), ("qmcreate", "300", "talmox@pve!ci"));
        assert_eq!(upid.started(), 0x65F0_C0DE);
        assert_eq!(upid.to_string(), text);
    }

    #[test]
    fn invalid_upids_are_rejected() {
        for text in [
            "",
            "UPID:pve1:1:2:3:qmcreate:300:root@pam",
            "UPID:pve1:1:2:3:qmcreate:300:root@pam:x",
            "UPID:pve1:1:-2:3:qmcreate:300:root@pam:",
            "UPID:pve1:1:2:+3:qmcreate:300:root@pam:",
            "UPID:pve1:1:2:3::300:root@pam:",
            "UPID:../x:1:2:3:qmcreate:300:root@pam:",
            "UPID:pve1:1:2:3:qmcreate:3/0:root@pam:",
            "PID:pve1:1:2:3:qmcreate:300:root@pam:",
        ] {
            assert!(text.parse::<Upid>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn upids_round_trip(
            node in "[a-z]([a-z0-9-]{0,8}[a-z0-9])?",
            numbers in (any::<u32>(), any::<u64>(), any::<u32>()),
            kind in "[a-z]{1,12}",
            id in "[a-zA-Z0-9._-]{0,12}",
            user in "[a-z]{1,8}@(pam|pve)(![a-z][a-z0-9]{1,6})?",
        ) {
            let node: NodeName = node.parse().unwrap();
            let (pid, pstart, started) = numbers;
            let numbers = (pid.into(), pstart, started.into());
            let made = Upid::new(&node, numbers, &kind, &id, &user).unwrap();
            let read: Upid = made.as_str().parse().unwrap();
            prop_assert_eq!(&read, &made);
            prop_assert_eq!(read.node(), &node);
            prop_assert_eq!((read.kind(), read.id(), read.user()), (&*kind, &*id, &*user));
            prop_assert_eq!(read.started(), u64::from(started));
        }

        #[test]
        fn upid_parsing_never_panics(text in "(UPID)?[:a-zA-Z0-9@! ä/-]{0,60}") {
            if let Ok(upid) = text.parse::<Upid>() {
                prop_assert_eq!(upid.to_string(), text);
            }
        }
    }
}
