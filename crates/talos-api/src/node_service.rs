//! Names of the services behind the Talos API, for messages of a node that is starting.
//!
//! While a node boots, its API answers with gRPC's description of the socket that it could not connect to. [`plain`]
//! replaces this description by the name of the service.

/// Part of the socket address of a service, and the name of the service.
const SERVICES: [(&str, &str); 6] = [
    ("/machined/", "machined"),
    ("/apid/", "apid"),
    ("/trustd/", "trustd"),
    ("/containerd.sock", "containerd"),
    (":2379", "etcd"),
    (":6443", "the Kubernetes API server"),
];

/// Reason of a failure. gRPC's description of a socket error is replaced by the name of the service.
pub(crate) fn plain(reason: &str) -> String {
    let Some(socket) = Unreached::of(reason) else { return reason.to_owned() };
    let Unreached { place, why } = socket;
    match SERVICES.iter().find(|(part, _)| place.contains(part)) {
        Some((_, service)) => format!("{service} on the node does not accept connections"),
        None => format!("{place} does not accept connections: {why}"),
    }
}

/// Socket that the node could not connect to.
struct Unreached<'a> {
    place: &'a str,
    why: &'a str,
}

impl<'a> Unreached<'a> {
    /// Parses `… Error while dialing: dial unix PATH: connect: connection refused`.
    fn of(reason: &'a str) -> Option<Self> {
        let (_, dialed) = reason.split_once("Error while dialing: dial ")?;
        // If a name cannot be resolved, the text is `dial tcp: lookup NAME: no such host`.
        let rest = dialed.split_once(' ')?.1.trim_end_matches('"');
        let rest = rest.strip_prefix("lookup ").unwrap_or(rest);
        let (place, why) = rest.split_once(": ")?;
        Some(Self { place, why: why.strip_prefix("connect: ").unwrap_or(why) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_starting_is_named() {
        for (dialed, expected) in [
            (
                "dial unix /system/run/machined/machine.sock: connect: no such file or directory",
                "machined on the node does not accept connections",
            ),
            (
                "dial unix /run/containerd/containerd.sock: connect: connection refused",
                "containerd on the node does not accept connections",
            ),
            (
                "dial tcp [::1]:2379: connect: connection refused",
                "etcd on the node does not accept connections",
            ),
            (
                "dial tcp 10.0.0.12:50000: i/o timeout",
                "10.0.0.12:50000 does not accept connections: i/o timeout",
            ),
            (
                "dial tcp: lookup cp-2: no such host",
                "cp-2 does not accept connections: no such host",
            ),
        ] {
            let said =
                format!("connection error: desc = \"transport: Error while dialing: {dialed}\"");
            assert_eq!(plain(&said), expected);
        }
        assert_eq!(plain("time is not in sync yet"), "time is not in sync yet");
    }
}
