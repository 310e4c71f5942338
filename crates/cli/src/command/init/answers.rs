//! What `init` wants to know: from flags, from a person, or by default.

use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;
use std::str::FromStr;

use talmox_model::release;
use talmox_model::value::ProxmoxUrl;

use super::InitArgs;
use crate::error::CommandError;
use crate::printer::Printer;

/// Everything that the files are written from.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) cluster: String,
    pub(super) talos_version: String,
    pub(super) subnet: Subnet,
    pub(super) gateway: Ipv4Addr,
    pub(super) vip: Option<Ipv4Addr>,
    pub(super) controlplanes: Vec<Ipv4Addr>,
    pub(super) workers: Vec<Ipv4Addr>,
    pub(super) proxmox: Option<ProxmoxUrl>,
    pub(super) fingerprint: Option<String>,
    pub(super) node: String,
}

/// An IPv4 network. `init` counts addresses up, which makes little sense in IPv6.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subnet {
    network: u32,
    prefix_len: u8,
}

impl Subnet {
    /// The nth address, if it is one that a machine can have.
    fn nth(self, n: u32) -> Option<Ipv4Addr> {
        let size = 1u64 << (32 - u32::from(self.prefix_len));
        (n > 0 && u64::from(n) + 1 < size).then(|| Ipv4Addr::from_bits(self.network + n))
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        let offset = address.to_bits().checked_sub(self.network);
        offset.is_some_and(|offset| self.nth(offset).is_some())
    }

    /// `count` addresses from `first` on that are in the subnet and not among `taken`.
    fn free_from(self, first: Ipv4Addr, count: u16, taken: &[Ipv4Addr]) -> Option<Vec<Ipv4Addr>> {
        let start = first.to_bits().checked_sub(self.network)?;
        let mut found = vec![];
        let mut offset = start;
        while found.len() < usize::from(count) {
            let address = self.nth(offset)?;
            if !taken.contains(&address) {
                found.push(address);
            }
            offset += 1;
        }
        Some(found)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("`{text}` is not an IPv4 network such as 10.0.0.0/24");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let prefix_len: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=29).contains(&prefix_len) {
            return Err(format!("/{prefix_len} is no size for a network of nodes: use /8 to /29"));
        }
        let mask = u32::MAX << (32 - u32::from(prefix_len));
        Ok(Self { network: address.to_bits() & mask, prefix_len })
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.network), self.prefix_len)
    }
}

impl Answers {
    /// `is_free` refuses the name of a cluster that exists, before anything else is asked.
    pub(super) fn collect(
        args: &InitArgs,
        asking: &Asking<'_>,
        is_free: impl Fn(&str) -> Result<(), CommandError>,
    ) -> Result<Self, CommandError> {
        let cluster =
            asking.ask("Name of the cluster", args.cluster.as_deref(), Some("home"), name)?;
        is_free(&cluster)?;
        let proxmox = asking.ask_optional(
            "Address of the Proxmox (empty: later)",
            args.proxmox.as_deref(),
            ProxmoxUrl::from_str,
        )?;
        let node =
            asking.ask("Name of the Proxmox host", args.node.as_deref(), Some("pve"), host)?;
        let subnet: Subnet = asking.ask(
            "Network of the nodes, such as 10.0.0.0/24",
            args.subnet.as_deref(),
            None,
            Subnet::from_str,
        )?;
        let inside = |text: &str| -> Result<Ipv4Addr, String> {
            let address: Ipv4Addr =
                text.parse().map_err(|_| format!("`{text}` is not an address"))?;
            let problem =
                || format!("{address} is not an address of {subnet} that a machine can have");
            subnet.contains(address).then_some(address).ok_or_else(problem)
        };
        let default = |n: u32| subnet.nth(n).map(|address| address.to_string());
        let gateway =
            asking.ask("Gateway", args.gateway.as_deref(), default(1).as_deref(), inside)?;
        let count =
            |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a number"));
        let flag = |number: Option<u16>| number.map(|number| number.to_string());
        let controlplane_count = asking.ask(
            "How many control planes",
            flag(args.controlplanes).as_deref(),
            Some("3"),
            |text| {
                count(text).and_then(|n| if n > 0 { Ok(n) } else { Err("at least one".to_owned()) })
            },
        )?;
        let worker_count =
            asking.ask("How many workers", flag(args.workers).as_deref(), Some("2"), count)?;
        let first = asking.ask(
            "Address of the first control plane",
            args.first_address.as_deref(),
            default(11).or_else(|| default(2)).as_deref(),
            inside,
        )?;
        let too_small = || {
            CommandError::usage(format!("{subnet} has not enough addresses from {first} on"))
                .hint("choose a larger --subnet or a lower --first-address")
        };
        let controlplanes =
            subnet.free_from(first, controlplane_count, &[gateway]).ok_or_else(too_small)?;
        let vip = Self::vip(args, asking, subnet, gateway, &controlplanes, &inside)?;
        let mut taken = controlplanes.clone();
        taken.push(gateway);
        taken.extend(vip);
        // Workers start ten further on, as people do by hand, if there is room.
        let after = Ipv4Addr::from_bits(first.to_bits().saturating_add(10));
        let workers = subnet
            .free_from(after, worker_count, &taken)
            .or_else(|| subnet.free_from(first, worker_count, &taken))
            .ok_or_else(too_small)?;
        Ok(Self {
            cluster,
            talos_version: args
                .talos_version
                .clone()
                .unwrap_or_else(|| release::default_talos().to_string()),
            subnet,
            gateway,
            vip,
            controlplanes,
            workers,
            proxmox,
            fingerprint: args.fingerprint.clone(),
            node,
        })
    }

    fn vip(
        args: &InitArgs,
        asking: &Asking<'_>,
        subnet: Subnet,
        gateway: Ipv4Addr,
        controlplanes: &[Ipv4Addr],
        inside: &dyn Fn(&str) -> Result<Ipv4Addr, String>,
    ) -> Result<Option<Ipv4Addr>, CommandError> {
        let mut taken = controlplanes.to_vec();
        taken.push(gateway);
        let twentieth = subnet.nth(20).filter(|address| !taken.contains(address));
        let suggestion = twentieth
            .or_else(|| Some(subnet.free_from(controlplanes[0], 1, &taken)?[0]))
            .filter(|_| controlplanes.len() > 1)
            .map_or_else(|| "none".to_owned(), |address| address.to_string());
        asking.ask(
            "A free address for the control plane as a whole (VIP), or none",
            args.vip.as_deref(),
            Some(&suggestion),
            |text| match text {
                "none" => Ok(None),
                text => {
                    let address = inside(text)?;
                    if taken.contains(&address) {
                        return Err(format!("{address} is taken by a node or the gateway"));
                    }
                    Ok(Some(address))
                }
            },
        )
    }
}

/// Hosts may have upper-case letters.
fn host(text: &str) -> Result<String, String> {
    name(&text.to_ascii_lowercase()).map(|_| text.to_owned())
}

/// Names of clusters and hosts: the check of the inventory says the rest.
fn name(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = !text.is_empty()
        && text.len() <= 63
        && text.chars().all(is_good)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a name: lower-case letters, digits and `-`"))
    }
}

/// Asks on the terminal, or goes by flags and defaults.
pub(super) struct Asking<'a> {
    pub(super) printer: &'a Printer,
    pub(super) is_asking: bool,
}

impl Asking<'_> {
    /// A flag wins; then a person is asked until the answer is good; then the default stands.
    fn ask<T>(
        &self,
        question: &str,
        flag: Option<&str>,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, CommandError> {
        if let Some(flag) = flag {
            return parse(flag).map_err(CommandError::usage);
        }
        if !self.is_asking {
            let Some(default) = default else {
                let error = CommandError::usage(format!("{question}: not given"));
                return Err(error.hint(
                    "without a terminal, --subnet CIDR is needed; see `talmox init --help`",
                ));
            };
            return parse(default).map_err(CommandError::usage);
        }
        loop {
            let line = self.line(question, default)?;
            let answer = if line.is_empty() { default.unwrap_or_default() } else { &line };
            match parse(answer) {
                Ok(value) => return Ok(value),
                Err(problem) => self.printer.say(&format!("  {problem}")),
            }
        }
    }

    fn ask_optional<T>(
        &self,
        question: &str,
        flag: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, CommandError> {
        self.ask(question, flag, Some(""), |text| {
            if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
        })
    }

    pub(super) fn yes_or_no(&self, question: &str, default: bool) -> Result<bool, CommandError> {
        let shown = if default { "Y/n" } else { "y/N" };
        match self.line(question, Some(shown))?.to_lowercase().as_str() {
            "" => Ok(default),
            answer => Ok(matches!(answer, "y" | "yes")),
        }
    }

    fn line(&self, question: &str, default: Option<&str>) -> Result<String, CommandError> {
        let shown = match default {
            Some(default) if !default.is_empty() => format!("{question} [{default}]: "),
            _ => format!("{question}: "),
        };
        let lost = |error| CommandError::failed("cannot read the answer").because(error);
        self.printer.say_raw(&shown);
        io::stderr().flush().map_err(lost)?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).map_err(lost)? == 0 {
            return Err(CommandError::failed("no answer; nothing was written"));
        }
        Ok(line.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_inside_the_subnet() {
        let subnet: Subnet = "10.0.0.7/29".parse().unwrap();
        assert_eq!(subnet.to_string(), "10.0.0.0/29");
        assert_eq!(subnet.nth(0), None);
        assert_eq!(subnet.nth(6), Some(Ipv4Addr::new(10, 0, 0, 6)));
        assert_eq!(subnet.nth(7), None, "the broadcast address");
        let gateway = Ipv4Addr::new(10, 0, 0, 3);
        let found = subnet.free_from(Ipv4Addr::new(10, 0, 0, 2), 3, &[gateway]).unwrap();
        assert_eq!(found, [2, 4, 5].map(|n| Ipv4Addr::new(10, 0, 0, n)));
        assert_eq!(subnet.free_from(Ipv4Addr::new(10, 0, 0, 2), 5, &[gateway]), None);
        assert_eq!(subnet.free_from(Ipv4Addr::new(9, 0, 0, 2), 1, &[]), None);
        for bad in ["10.0.0.0", "10.0.0.0/31", "10.0.0.0/4", "fd00::/64", "x/24"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }
}
