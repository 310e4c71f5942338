//! The settings of talmox for one node, as documents that are merged into the config that Talos generates.

use talmox_model::inventory::Mount;
use talmox_model::value::{Filesystem, NetworkForm, Role};
use talmox_model::{Node, Setting, Table};
use talmox_talos_config::contract::Contract;
use talmox_yaml::Node as Yaml;
use talmox_yaml::build::{flag, list, map, text, texts, unless_empty};

use crate::desired::error::DeriveError;
use crate::desired::identity::NodeIdentity;
use crate::desired::image::Image;
use crate::desired::inputs::Inputs;
use crate::desired::network::{self, document};
use crate::desired::{disk_identity, extras};

pub(super) fn documents(
    inputs: &Inputs<'_>,
    node: &Node,
    identity: &NodeIdentity,
    image: &Image,
    contract: Contract,
) -> Result<Vec<Yaml>, DeriveError> {
    let network = network::config(inputs.cluster, node, identity, inputs.phase, contract)?;
    let hostname = text(node.name.value.as_str());
    let mut machine_network = network.machine;
    let mut documents = network.documents;
    if contract.network_documents() {
        let keys = [("auto", Some(text("off"))), ("hostname", Some(hostname))];
        documents.insert(0, document("HostnameConfig", keys));
    } else {
        machine_network.insert(0, ("hostname", Some(hostname)));
    }
    documents.extend(time_document(inputs));
    documents.extend(volume_documents(node, contract));
    documents.extend(registry_documents(inputs, node, contract)?);
    documents.extend(tailscale_document(inputs, node)?);

    let machine = map([
        ("network", unless_empty(map(machine_network))),
        ("install", Some(install(node, image))),
        ("sysctls", unless_empty(sysctls(node, contract))),
        ("kernel", kernel(node)),
        ("kubelet", unless_empty(kubelet(node))),
        ("nodeLabels", unless_empty(table(&node.settings().kubernetes.labels))),
        ("nodeAnnotations", unless_empty(table(&node.settings().kubernetes.annotations))),
        ("nodeTaints", unless_empty(taints(node))),
        ("time", time(inputs)),
        ("disks", old_disks(node, contract)),
        ("registries", old_registries(inputs, node, contract)?),
    ]);
    let no_proxy =
        node.role == Role::ControlPlane && !*inputs.cluster.file.network.kube_proxy.required();
    let proxy = no_proxy.then(|| map([("disabled", Some(flag(true)))]));
    let cluster = unless_empty(map([("proxy", proxy)]));
    documents.insert(0, map([("machine", Some(machine)), ("cluster", cluster)]));
    Ok(documents)
}

fn install(node: &Node, image: &Image) -> Yaml {
    let settings = node.settings();
    let bus = *settings.hardware.disk_bus.required();
    let disk = settings.system.install_disk.get().cloned();
    let disk = disk.unwrap_or_else(|| disk_identity::link(bus, 0));
    map([("disk", Some(text(disk))), ("image", Some(text(&image.installer)))])
}

/// Names and values from the inventory, such as labels.
fn table<K>(entries: &Table<Setting<String>, K>) -> Yaml {
    map(entries.entries.iter().map(|(name, value)| (name.value.as_str(), value.get().map(text))))
}

fn sysctls(node: &Node, contract: Contract) -> Yaml {
    let own = &node.settings().system.sysctls;
    let extra = extras::sysctls(node, contract);
    let extra = extra.into_iter().filter(|(name, _)| own.get(name).is_none());
    let own = own.entries.iter().map(|(name, value)| (name.value.as_str(), value.get().map(text)));
    map(extra.map(|(name, value)| (name, Some(text(value)))).chain(own))
}

fn kernel(node: &Node) -> Option<Yaml> {
    let modules = extras::kernel_modules(node).into_iter();
    let modules = list(modules.map(|name| map([("name", Some(text(name)))])));
    unless_empty(modules).map(|modules| map([("modules", Some(modules))]))
}

fn kubelet(node: &Node) -> Yaml {
    let kubelet = &node.settings().kubernetes.kubelet;
    let longhorn = extras::longhorn_mount(node).map(|path| mount(path, path, "bind", &[]));
    let own = kubelet.extra_mounts.values().filter_map(own_mount);
    map([
        ("extraArgs", unless_empty(table(&kubelet.extra_args))),
        ("extraMounts", unless_empty(list(longhorn.into_iter().chain(own)))),
    ])
}

fn own_mount(own: &Mount) -> Option<Yaml> {
    let destination = own.destination.get()?;
    let source = own.source.get().unwrap_or(destination);
    let kind = own.kind.get().map_or("bind", String::as_str);
    let options: Vec<String> = own.options.values().cloned().collect();
    Some(mount(destination, source, kind, &options))
}

fn mount(destination: &str, source: &str, kind: &str, options: &[String]) -> Yaml {
    let options = match options {
        [] => texts(["bind", "rshared", "rw"]),
        options => texts(options.iter().map(String::as_str)),
    };
    map([
        ("destination", Some(text(destination))),
        ("type", Some(text(kind))),
        ("source", Some(text(source))),
        ("options", Some(options)),
    ])
}

/// The taints of a node. Talos writes a taint as `key: value:Effect`.
fn taints(node: &Node) -> Yaml {
    let taints = node.settings().kubernetes.taints.values();
    let pairs: Vec<(String, String)> = taints
        .map(|taint| {
            let value = taint.value.as_deref();
            let value =
                value.map_or(taint.effect.clone(), |value| format!("{value}:{}", taint.effect));
            (taint.key.clone(), value)
        })
        .collect();
    map(pairs.iter().map(|(key, value)| (key.as_str(), Some(text(value)))))
}

fn time_servers(inputs: &Inputs<'_>) -> Option<Yaml> {
    let servers = inputs.cluster.file.network.time_servers.values();
    unless_empty(texts(servers.map(ToString::to_string)))
}

fn wants_documents(inputs: &Inputs<'_>) -> bool {
    *inputs.cluster.file.network.form.required() == NetworkForm::Documents
}

fn time(inputs: &Inputs<'_>) -> Option<Yaml> {
    let servers = time_servers(inputs).filter(|_| !wants_documents(inputs))?;
    Some(map([("servers", Some(servers))]))
}

fn time_document(inputs: &Inputs<'_>) -> Option<Yaml> {
    let servers = time_servers(inputs).filter(|_| wants_documents(inputs))?;
    Some(document("TimeSyncConfig", [("ntp", Some(map([("servers", Some(servers))])))]))
}

/// Whether user volumes are separate config documents. This is so since Talos 1.10. Before, user volumes are part of
/// `machine.disks`.
fn has_volume_documents(contract: Contract) -> bool {
    contract >= Contract::new(1, 10)
}

/// The disks with a user volume: the link to the disk, the name of the volume, and the file system.
fn volumes(node: &Node) -> impl Iterator<Item = (String, &str, Filesystem)> {
    let hardware = &node.settings().hardware;
    let bus = *hardware.disk_bus.required();
    hardware.disks.values().enumerate().filter_map(move |(index, disk)| {
        let filesystem = disk.filesystem.get().copied().unwrap_or(Filesystem::Xfs);
        Some((disk_identity::link(bus, index + 1), disk.volume.get()?.as_str(), filesystem))
    })
}

fn volume_documents(node: &Node, contract: Contract) -> Vec<Yaml> {
    if !has_volume_documents(contract) {
        return vec![];
    }
    let volume = |(link, name, filesystem): (String, &str, Filesystem)| {
        let selector = map([("match", Some(text(format!("\"{link}\" in disk.symlinks"))))]);
        let provisioning = map([
            ("diskSelector", Some(selector)),
            ("minSize", Some(text("1GiB"))),
            ("grow", Some(flag(true))),
        ]);
        let filesystem = map([("type", Some(text(filesystem.as_str())))]);
        document(
            "UserVolumeConfig",
            [
                ("name", Some(text(name))),
                ("provisioning", Some(provisioning)),
                ("filesystem", Some(filesystem)),
            ],
        )
    };
    volumes(node).map(volume).collect()
}

fn old_disks(node: &Node, contract: Contract) -> Option<Yaml> {
    if has_volume_documents(contract) {
        return None;
    }
    let disk = |(link, name, _): (String, &str, Filesystem)| {
        let partition = map([("mountpoint", Some(text(format!("/var/mnt/{name}"))))]);
        map([("device", Some(text(link))), ("partitions", Some(list([partition])))])
    };
    unless_empty(list(volumes(node).map(disk)))
}

/// Config documents of registries. These documents exist since Talos 1.12.
fn registry_documents(
    inputs: &Inputs<'_>,
    node: &Node,
    contract: Contract,
) -> Result<Vec<Yaml>, DeriveError> {
    if !contract.network_documents() {
        return Ok(vec![]);
    }
    let registries = &node.settings().system.registries;
    let mut documents = vec![];
    for (host, mirror) in &registries.mirrors.entries {
        let override_path = mirror.override_path.get().copied();
        let endpoints = mirror.endpoints.values().map(|url| {
            map([("url", Some(text(url.to_string()))), ("overridePath", override_path.map(flag))])
        });
        documents.push(document(
            "RegistryMirrorConfig",
            [
                ("name", Some(text(&host.value))),
                ("endpoints", Some(list(endpoints))),
                ("skipFallback", mirror.skip_fallback.get().copied().map(flag)),
            ],
        ));
    }
    for (host, auth) in &registries.auth.entries {
        let password =
            auth.password.spanned().map(|password| inputs.secret(password)).transpose()?;
        documents.push(document(
            "RegistryAuthConfig",
            [
                ("name", Some(text(&host.value))),
                ("username", auth.username.get().map(text)),
                ("password", password.map(|password| text(password.expose()))),
            ],
        ));
    }
    Ok(documents)
}

fn old_registries(
    inputs: &Inputs<'_>,
    node: &Node,
    contract: Contract,
) -> Result<Option<Yaml>, DeriveError> {
    if contract.network_documents() {
        return Ok(None);
    }
    let registries = &node.settings().system.registries;
    let mirrors = registries.mirrors.entries.iter().map(|(host, mirror)| {
        let endpoints = texts(mirror.endpoints.values().map(ToString::to_string));
        let mirror = map([
            ("endpoints", Some(endpoints)),
            ("overridePath", mirror.override_path.get().copied().map(flag)),
            ("skipFallback", mirror.skip_fallback.get().copied().map(flag)),
        ]);
        (host.value.as_str(), Some(mirror))
    });
    let mirrors = unless_empty(map(mirrors));
    let mut config = vec![];
    for (host, auth) in &registries.auth.entries {
        let password =
            auth.password.spanned().map(|password| inputs.secret(password)).transpose()?;
        let auth = map([
            ("username", auth.username.get().map(text)),
            ("password", password.map(|password| text(password.expose()))),
        ]);
        config.push((host.value.as_str(), Some(map([("auth", Some(auth))]))));
    }
    Ok(unless_empty(map([("mirrors", mirrors), ("config", unless_empty(map(config)))])))
}

fn tailscale_document(inputs: &Inputs<'_>, node: &Node) -> Result<Option<Yaml>, DeriveError> {
    let tailscale = &inputs.cluster.file.tailscale;
    let Some(auth_key) = tailscale.auth_key.spanned() else { return Ok(None) };
    let key = inputs.secret(auth_key)?;
    let mut arguments = vec![];
    if let Some(server) = tailscale.login_server.get() {
        arguments.push(format!("--login-server={server}"));
    }
    if tailscale.accept_routes.get() == Some(&true) {
        arguments.push("--accept-routes".to_owned());
    }
    arguments.extend(tailscale.extra_args.values().cloned());
    let routes: Vec<String> = tailscale.routes.values().map(ToString::to_string).collect();
    let mut environment = vec![
        format!("TS_AUTHKEY={}", key.expose()),
        format!("TS_HOSTNAME={}", node.name.value),
        "TS_AUTH_ONCE=true".to_owned(),
    ];
    if !routes.is_empty() {
        environment.push(format!("TS_ROUTES={}", routes.join(",")));
    }
    if !arguments.is_empty() {
        environment.push(format!("TS_EXTRA_ARGS={}", arguments.join(" ")));
    }
    Ok(Some(document(
        "ExtensionServiceConfig",
        [("name", Some(text("tailscale"))), ("environment", Some(texts(environment)))],
    )))
}
