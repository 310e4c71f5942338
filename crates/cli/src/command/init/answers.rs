//! Answers of `init`, from flags, prompts or defaults.

use std::net::Ipv4Addr;
use std::str::FromStr;

use talmox_model::release;
use talmox_model::value::ProxmoxUrl;

use super::InitArgs;
use super::asking::{Asking, InvalidAnswer};
use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Values for the inventory files.
#[derive(Clone, Debug)]
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

/// IPv4 network. IPv6 is not supported, because `init` assigns consecutive addresses, which is unusual for IPv6.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subnet {
    network: u32,
    prefix_len: u8,
}

impl Subnet {
    /// Nth address of the network. `None` for the network address, the broadcast address and addresses outside the
    /// network.
    fn nth(self, n: u32) -> Option<Ipv4Addr> {
        let size = 1u64 << (32 - u32::from(self.prefix_len));
        (n > 0 && u64::from(n) + 1 < size).then(|| Ipv4Addr::from_bits(self.network + n))
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        let offset = address.to_bits().checked_sub(self.network);
        offset.is_some_and(|offset| self.nth(offset).is_some())
    }

    /// `count` addresses of the subnet, starting at `first`, without the addresses in `taken`.
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
        if text.is_empty() {
            return Err("a network such as 10.0.0.0/24 is required".to_owned());
        }
        let bad = || format!("`{text}` is not an IPv4 network such as 10.0.0.0/24");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let prefix_len: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=29).contains(&prefix_len) {
            return Err(format!(
                "/{prefix_len} is not supported: use a prefix length from /8 to /29"
            ));
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

/// Checks of single answers against existing clusters and Proxmox.
pub(super) trait AnswerCheck {
    /// Returns an error if a cluster with this name exists.
    fn name(&self, cluster: &str) -> Result<(), CommandError>;
    /// Shows the certificate of Proxmox and asks for confirmation.
    fn certificate(&self, url: &ProxmoxUrl) -> Result<Certificate, CommandError>;
    /// Returns an error if addresses conflict with another cluster.
    fn addresses(&self, answers: &Answers) -> Result<(), CommandError>;
}

/// Result of the certificate confirmation.
#[derive(Debug)]
pub(super) enum Certificate {
    Confirmed(String),
    /// The certificate could not be read, or no terminal is available.
    Unconfirmed,
    /// The user did not confirm the certificate.
    Declined,
}

/// Answers that are needed before the addresses.
struct Basics {
    cluster: String,
    talos_version: String,
    proxmox: Option<ProxmoxUrl>,
    fingerprint: Option<String>,
    node: String,
    subnet: Subnet,
    gateway: Ipv4Addr,
    controlplanes: u16,
    workers: u16,
}

impl Basics {
    /// Complete answers, with node addresses that start at `first`.
    fn with_nodes(&self, first: Ipv4Addr, vip: Option<Ipv4Addr>) -> Result<Answers, CommandError> {
        let (subnet, gateway) = (self.subnet, self.gateway);
        let too_small = || {
            CommandError::usage(format!("{subnet} has too few addresses from {first} on"))
                .hint("choose a larger --subnet or a lower --first-address")
        };
        let controlplanes =
            subnet.free_from(first, self.controlplanes, &[gateway]).ok_or_else(too_small)?;
        let mut taken = controlplanes.clone();
        taken.push(gateway);
        taken.extend(vip);
        // Workers start ten addresses after the first control plane, if the network is large enough.
        let after = Ipv4Addr::from_bits(first.to_bits().saturating_add(10));
        let workers = subnet
            .free_from(after, self.workers, &taken)
            .or_else(|| subnet.free_from(first, self.workers, &taken))
            .ok_or_else(too_small)?;
        Ok(Answers {
            cluster: self.cluster.clone(),
            talos_version: self.talos_version.clone(),
            subnet,
            gateway,
            vip,
            controlplanes,
            workers,
            proxmox: self.proxmox.clone(),
            fingerprint: self.fingerprint.clone(),
            node: self.node.clone(),
        })
    }
}

impl Answers {
    /// Collects all answers. After an invalid answer, only that question is asked again.
    pub(super) fn collect(
        args: &InitArgs,
        asking: &Asking<'_>,
        check: &dyn AnswerCheck,
    ) -> Result<Self, CommandError> {
        let cluster = asking.ask(
            "Name of the cluster",
            args.cluster.as_deref(),
            Some("home"),
            |text| -> Result<String, InvalidAnswer> {
                let cluster = name(text)?;
                check.name(&cluster)?;
                Ok(cluster)
            },
        )?;
        let (proxmox, fingerprint) = proxmox(args, asking, check)?;
        let node =
            asking.ask("Name of the Proxmox host", args.node.as_deref(), Some("pve"), host)?;
        let subnet: Subnet = asking.ask(
            "Network of the nodes, such as 10.0.0.0/24",
            args.subnet.as_deref(),
            None,
            Subnet::from_str,
        )?;
        let default = |n: u32| subnet.nth(n).map(|address| address.to_string());
        let gateway =
            asking.ask("Gateway", args.gateway.as_deref(), default(1).as_deref(), |text| {
                inside(subnet, text)
            })?;
        let (controlplanes, workers) = counts(args, asking, subnet, gateway)?;
        let talos_version =
            args.talos_version.clone().unwrap_or_else(|| release::default_talos().to_string());
        let basics = Basics {
            cluster,
            talos_version,
            proxmox,
            fingerprint,
            node,
            subnet,
            gateway,
            controlplanes,
            workers,
        };
        let first = asking.ask(
            "Address of the first control plane",
            args.first_address.as_deref(),
            default(11).or_else(|| default(2)).as_deref(),
            |text| -> Result<Ipv4Addr, InvalidAnswer> {
                let first = inside(subnet, text)?;
                check.addresses(&basics.with_nodes(first, None)?)?;
                Ok(first)
            },
        )?;
        let vip = vip(args, asking, check, &basics, first)?;
        basics.with_nodes(first, vip)
    }
}

/// URL of Proxmox and fingerprint of its certificate. If the user does not confirm the certificate, this function asks
/// for the URL again.
fn proxmox(
    args: &InitArgs,
    asking: &Asking<'_>,
    check: &dyn AnswerCheck,
) -> Result<(Option<ProxmoxUrl>, Option<String>), CommandError> {
    loop {
        let url = asking.ask_optional(
            "URL of the Proxmox API (empty to set it later)",
            args.proxmox.as_deref(),
            proxmox_url,
        )?;
        let Some(named) = url.as_ref().filter(|_| args.fingerprint.is_none()) else {
            return Ok((url, args.fingerprint.clone()));
        };
        match check.certificate(named)? {
            Certificate::Confirmed(fingerprint) => return Ok((url, Some(fingerprint))),
            Certificate::Unconfirmed => return Ok((url, None)),
            Certificate::Declined if args.proxmox.is_some() => {
                let message = "the certificate was not confirmed; nothing was written";
                return Err(CommandError::failed(CommandCode::CertificateUnconfirmed, message)
                    .hint(DECLINED));
            }
            Certificate::Declined => asking.printer.say(&format!(
                "  not confirmed: {DECLINED}\n  Enter another address, or leave it empty for now."
            )),
        }
    }
}

/// Parses the URL of Proxmox. A host that is a number is an error, because the resolver would use it as an address: `0` is
/// this machine.
fn proxmox_url(text: &str) -> Result<ProxmoxUrl, String> {
    let url: ProxmoxUrl = text.parse()?;
    if url.host.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` is not the address of a Proxmox such as https://pve1:8006"));
    }
    Ok(url)
}

const DECLINED: &str = "compare it with the fingerprint on the console of the host: another machine may answer in place of Proxmox";

/// Numbers of control planes and workers, which must fit into the network.
fn counts(
    args: &InitArgs,
    asking: &Asking<'_>,
    subnet: Subnet,
    gateway: Ipv4Addr,
) -> Result<(u16, u16), CommandError> {
    let flag = |number: Option<u16>| number.map(|number| number.to_string());
    let fits = |count: u32| -> Result<(), String> {
        let first = subnet.nth(1).ok_or_else(|| format!("{subnet} has no addresses"))?;
        let count = u16::try_from(count).ok();
        let has_room =
            count.is_some_and(|count| subnet.free_from(first, count, &[gateway]).is_some());
        if has_room {
            Ok(())
        } else {
            Err(format!("{subnet} has too few addresses for this number of nodes"))
        }
    };
    let count = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a number"));
    let controlplanes = asking.ask(
        "Number of control planes",
        flag(args.controlplanes).as_deref(),
        Some("3"),
        |text| -> Result<u16, String> {
            let controlplanes = count(text)?;
            if controlplanes == 0 {
                return Err("at least one control plane is needed".to_owned());
            }
            fits(u32::from(controlplanes))?;
            Ok(controlplanes)
        },
    )?;
    let workers = asking.ask(
        "Number of workers",
        flag(args.workers).as_deref(),
        Some("2"),
        |text| -> Result<u16, String> {
            let workers = count(text)?;
            fits(u32::from(controlplanes) + u32::from(workers))?;
            Ok(workers)
        },
    )?;
    Ok((controlplanes, workers))
}

/// Address that the control planes share (VIP).
fn vip(
    args: &InitArgs,
    asking: &Asking<'_>,
    check: &dyn AnswerCheck,
    basics: &Basics,
    first: Ipv4Addr,
) -> Result<Option<Ipv4Addr>, CommandError> {
    let subnet = basics.subnet;
    let controlplanes = basics.with_nodes(first, None)?.controlplanes;
    let mut taken = controlplanes.clone();
    taken.push(basics.gateway);
    let twentieth = subnet.nth(20).filter(|address| !taken.contains(address));
    let suggestion = twentieth
        .or_else(|| Some(subnet.free_from(controlplanes[0], 1, &taken)?[0]))
        .filter(|_| controlplanes.len() > 1)
        .map_or_else(|| "none".to_owned(), |address| address.to_string());
    asking.ask(
        "Free address that the control planes share (VIP), or none",
        args.vip.as_deref(),
        Some(&suggestion),
        |text| -> Result<Option<Ipv4Addr>, InvalidAnswer> {
            if text == "none" {
                return Ok(None);
            }
            let address = inside(subnet, text)?;
            if taken.contains(&address) {
                return Err(format!("{address} is used by a node or the gateway").into());
            }
            check.addresses(&basics.with_nodes(first, Some(address))?)?;
            Ok(Some(address))
        },
    )
}

/// Parses an address of the network. The network and broadcast addresses are errors.
fn inside(subnet: Subnet, text: &str) -> Result<Ipv4Addr, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| format!("`{text}` is not an address"))?;
    let problem = || format!("{address} is not a usable address of {subnet}");
    subnet.contains(address).then_some(address).ok_or_else(problem)
}

/// Parses the name of a Proxmox host. The name may have upper-case letters.
fn host(text: &str) -> Result<String, String> {
    name(&text.to_ascii_lowercase()).map(|_| text.to_owned())
}

/// Parses the name of a cluster or host. The inventory check reports further errors.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_empty_answers_have_a_clear_message() {
        for good in ["pve1", "https://10.0.0.2:8006", "pve1:8006", "10.0.0.2", "0x.example"] {
            assert!(proxmox_url(good).is_ok(), "{good}");
        }
        for number in ["0", "1", "0:8006", "https://0"] {
            let error = proxmox_url(number).unwrap_err();
            assert!(error.contains("is not the address of a Proxmox"), "{number}: {error}");
        }
        let error = "".parse::<Subnet>().unwrap_err();
        assert_eq!(error, "a network such as 10.0.0.0/24 is required");
    }

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
