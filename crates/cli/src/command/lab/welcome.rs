//! How to get into a lab, for people and for programs.

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
        "The lab is ready. It stops on Ctrl-C.

  Proxmox VE   {url}  (host {node})
  authority    {ca}
  fingerprint  {fingerprint}
  API token    {token}
  login        {username} with password {password}
  factory      {factory}  (stands for factory.talos.dev)
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

For other programs:

  export PROXMOX_VE_ENDPOINT='{url}'
  export PROXMOX_VE_API_TOKEN='{token}'
  export SSL_CERT_FILE='{ca}'
",
            url = pve.url,
        ));
    }
    out.push_str(
        "
For talmox itself, start it with --format json and keep the line that it prints:

  talmox lab serve --inventory DIR --format json > lab.json &
  talmox up --inventory DIR --lab-at lab.json --yes
",
    );
    out
}

/// Where nodes are: a line for each network, since addresses keep their last number.
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
        return "each with addresses of its own, see `reach` of --format json".to_owned();
    }
    let rule = |(network, place): (&&str, &&str)| {
        format!("{network}.11 is at {place}.11, and so on, with the same ports")
    };
    rules.iter().map(rule).collect::<Vec<_>>().join("\n               ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_told_by_a_rule() {
        let reach = [
            ("10.0.0.11", "127.31.7.11"),
            ("10.0.0.12", "127.31.7.12"),
            ("10.0.1.1", "127.31.8.1"),
            ("factory.talos.dev:443", "127.0.0.1:36611"),
        ];
        let reach = reach.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let told = networks(&reach);
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "10.0.0.11 is at 127.31.7.11, and so on, with the same ports",
                "10.0.1.11 is at 127.31.8.11, and so on, with the same ports",
            ]
        );
    }
}
