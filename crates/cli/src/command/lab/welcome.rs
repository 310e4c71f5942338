//! Connection details of a lab, as text and JSON.

use std::collections::BTreeMap;

use talmox_lab::Ready;

pub(super) fn one_line(ready: &Ready, seed: u64) -> String {
    let mut line = serde_json::json!(ready);
    line["seed"] = seed.into();
    format!("{line}\n")
}

pub(super) fn welcome(ready: &Ready, seed: u64) -> String {
    let pve = &ready.pve;
    let ca = pve.ca.display();
    let token = match pve.token_id.as_str() {
        "" => "none in the scenario".to_owned(),
        id => format!("{id}={}", pve.token_secret),
    };
    let mut out = format!(
        "The lab is ready. It stops at Ctrl-C.

  Proxmox VE   {url}  (host {node})
  authority    {ca}
  fingerprint  {fingerprint}
  API token    {token}
  login        {username} with password {password}
  factory      {factory}  (simulates factory.talos.dev)
  nodes        {nodes}
  seed         {seed}
",
        url = pve.url,
        node = pve.node,
        fingerprint = pve.fingerprint,
        username = pve.username,
        password = pve.password,
        factory = ready.factory.url,
        nodes = networks(&ready.reach),
    );
    if !pve.token_id.is_empty() {
        out.push_str(&format!(
            "
Try it:

  curl --cacert {ca} -H 'Authorization: PVEAPIToken={token}' {url}/api2/json/version

Settings for other programs:

  export PROXMOX_VE_ENDPOINT='{url}'
  export PROXMOX_VE_API_TOKEN='{token}'
  export SSL_CERT_FILE='{ca}'
",
            url = pve.url,
        ));
    }
    out.push_str(
        "
To use the lab with talmox, start it with --format json and save the line that it prints:

  talmox lab serve --inventory DIR --format json > lab.json &
  talmox up --inventory DIR --lab-at lab.json --yes
",
    );
    out
}

/// Loopback addresses of the nodes, as one line for each network.
fn networks(reach: &BTreeMap<String, String>) -> String {
    let mut rules: BTreeMap<&str, &str> = BTreeMap::new();
    for (from, to) in reach {
        let parts = (from.rsplit_once('.'), to.rsplit_once('.'));
        if let (Some((network, last)), Some((place, same))) = parts
            && last == same
            && !last.contains(':')
        {
            rules.insert(network, place);
        }
    }
    if rules.is_empty() {
        return "see `reach` in the output of --format json".to_owned();
    }
    let rule = |(network, place): (&&str, &&str)| {
        format!("{network}.11 listens on {place}.11, and so on, with the same ports")
    };
    rules.iter().map(rule).collect::<Vec<_>>().join("\n               ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_described_by_their_first_node() {
        let reach = [
            ("10.0.0.11", "127.31.7.11"),
            ("10.0.0.12", "127.31.7.12"),
            ("10.0.1.1", "127.31.8.1"),
            ("factory.talos.dev:443", "127.0.0.1:36611"),
        ];
        let reach = reach.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let text = networks(&reach);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "10.0.0.11 listens on 127.31.7.11, and so on, with the same ports",
                "10.0.1.11 listens on 127.31.8.11, and so on, with the same ports",
            ]
        );
    }
}
