"""Calls of a typical proxmoxer user, with the published proxmoxer."""

import hashlib
import io
import os
import tempfile

from proxmoxer import ProxmoxAPI, ResourceException
from proxmoxer.core import AuthenticationError
from proxmoxer.tools import Tasks


def connect(lab, **credentials):
    return ProxmoxAPI(
        lab.host, port=int(lab.port), verify_ssl=lab.ca, timeout=30, **credentials
    )


def by_password(lab):
    return connect(lab, user=lab.username, password=lab.password)


def by_token(lab, secret=None):
    user, name = lab.token_id.split("!")
    value = secret or lab.token_secret
    return connect(lab, user=user, token_name=name, token_value=value)


def task(checks, prox, name, upid):
    """Wait for a task, which must succeed."""
    decoded = Tasks.decode_upid(upid)
    status = Tasks.blocking_status(prox, upid, timeout=60, polling_interval=0.02)
    checks.equal(f"{name}: task {decoded['type']}", (status or {}).get("exitstatus"), "OK")
    return status


def failing_task(checks, prox, name, upid, text):
    status = Tasks.blocking_status(prox, upid, timeout=60, polling_interval=0.02)
    checks.has(f"{name}: the task fails", (status or {}).get("exitstatus"), text)
    node = Tasks.decode_upid(upid)["node"]
    log = Tasks.decode_log(prox.nodes(node).tasks(upid).log.get())
    checks.has(f"{name}: its log says so", log, "TASK ERROR: ")


def login(checks, lab, release):
    prox = by_password(lab)
    checks.equal("login by password", prox.version.get()["release"], release)
    ticket, csrf = prox.get_tokens()
    checks.that("ticket", ticket.startswith("PVE:root@pam:") and ":" in csrf, ticket)
    checks.raises(
        "wrong password",
        AuthenticationError,
        lambda: connect(lab, user=lab.username, password="wrong"),
    )
    checks.equal("token", by_token(lab).version.get()["release"], release)
    wrong = "00000000-0000-0000-0000-000000000000"
    error = checks.raises(
        "wrong token", ResourceException, lambda: by_token(lab, wrong).version.get()
    )
    checks.equal("wrong token: status", getattr(error, "status_code", None), 401)
    names = [node["node"] for node in by_token(lab).nodes.get()]
    checks.that("hosts", lab.node in names, names)


def upload(checks, prox, lab, name, content, size):
    """Upload a file of this size. proxmoxer sends up to 10 MiB from memory and streams larger files."""
    storage = prox.nodes(lab.node).storage("local")
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        with open(path, "rb") as file:
            upid = storage.upload.post(content=content, filename=file)
    task(checks, prox, f"upload {name}", upid)
    volid = f"local:{content}/{name}"
    found = [volume for volume in storage.content.get() if volume["volid"] == volid]
    checks.equal(f"upload {name}: size", [volume["size"] for volume in found], [size])
    return volid


def uploads(checks, prox, lab):
    storage = prox.nodes(lab.node).storage("local")
    small = upload(checks, prox, lab, "small.iso", "iso", 70_000)
    large = upload(checks, prox, lab, "large.raw", "import", 12 << 20)
    with open_named("sums.iso", b"hello\n") as file:
        digest = hashlib.sha256(b"hello\n").hexdigest()
        upid = storage.upload.post(
            content="iso",
            **{"checksum-algorithm": "sha256", "checksum": digest},
            filename=file,
        )
        task(checks, prox, "upload with a checksum", upid)
    with open_named("sums.iso", b"other\n") as file:
        upid = storage.upload.post(
            content="iso",
            **{"checksum-algorithm": "sha256", "checksum": digest},
            filename=file,
        )
        failing_task(checks, prox, "upload with a wrong checksum", upid, "checksum mismatch")
    with open_named("x.txt", b"hello\n") as file:
        error = checks.raises(
            "upload of a wrong file",
            ResourceException,
            lambda: storage.upload.post(content="iso", filename=file),
        )
        checks.that("upload of a wrong file: errors", "filename" in (error.errors or {}), error)
    task(checks, prox, "delete a file", storage.content(small).delete())
    volids = [volume["volid"] for volume in storage.content.get(content="iso")]
    checks.that("delete a file: it is gone", small not in volids, volids)
    return large


def open_named(name, data):
    """File object with a name, like that of `open`."""
    file = io.BytesIO(data)
    file.name = name
    return file


def machine(checks, prox, lab, image):
    qemu = prox.nodes(lab.node).qemu
    vmid = int(prox.cluster.nextid.get())
    checks.that("nextid", vmid >= 100, vmid)
    upid = qemu.post(
        vmid=vmid,
        name="web",
        memory=2048,
        cores=2,
        scsihw="virtio-scsi-single",
        scsi0="local-lvm:8,iothread=1",
        scsi1=f"local-lvm:0,import-from={image}",
        net0="virtio,bridge=vmbr0",
        agent="1",
        tags="web;lab",
    )
    task(checks, prox, "create", upid)
    vm = qemu(vmid)
    config = vm.config.get()
    checks.equal("config: name and cores", (config["name"], config["cores"]), ("web", 2))
    disks = (config["scsi0"], config["scsi1"])
    checks.equal(
        "config: disks",
        disks,
        (
            f"local-lvm:vm-{vmid}-disk-0,iothread=1,size=8G",
            f"local-lvm:vm-{vmid}-disk-1,size=12M",
        ),
    )
    checks.that("config: a MAC", config["net0"].startswith("virtio=BC:24:11:"), config["net0"])
    checks.equal("put config", vm.config.put(cores=4, digest=config["digest"]), None)
    checks.equal("put config: cores", vm.config.get()["cores"], 4)
    error = checks.raises(
        "put config with an old digest",
        ResourceException,
        lambda: vm.config.put(cores=8, digest=config["digest"]),
    )
    checks.has("old digest: text", error, "file change by other user?")
    task(checks, prox, "resize", vm.resize.put(disk="scsi0", size="+1G"))
    checks.has("resize: size", vm.config.get()["scsi0"], "size=9G")
    running(checks, prox, vm, vmid)
    snapshots(checks, prox, vm)
    templates(checks, prox, lab, vm, vmid)


def running(checks, prox, vm, vmid):
    task(checks, prox, "start", vm.status.start.post())
    checks.equal("start: status", vm.status.current.get()["status"], "running")
    error = checks.raises(
        "agent that does not answer",
        ResourceException,
        lambda: vm.agent("network-get-interfaces").get(),
    )
    checks.has("agent: text", error, "QEMU guest agent is not running")
    vm.config.put(memory=4096)
    waiting = {entry["key"]: entry.get("pending") for entry in vm.pending.get()}
    checks.equal("pending memory", str(waiting.get("memory")), "4096")
    error = checks.raises("delete a running VM", ResourceException, vm.delete)
    checks.has("delete a running VM: text", error, f"VM {vmid} is running")
    task(checks, prox, "stop", vm.status.stop.post())
    checks.equal("stop: memory", str(vm.config.get()["memory"]), "4096")


def snapshots(checks, prox, vm):
    task(checks, prox, "snapshot", vm.snapshot.post(snapname="before", description="first"))
    names = [snapshot["name"] for snapshot in vm.snapshot.get()]
    checks.equal("snapshot: list", sorted(names), ["before", "current"])
    vm.config.put(cores=1)
    task(checks, prox, "rollback", vm.snapshot("before").rollback.post())
    checks.equal("rollback: cores", vm.config.get()["cores"], 4)
    task(checks, prox, "delete a snapshot", vm.snapshot("before").delete())


def templates(checks, prox, lab, vm, vmid):
    qemu = prox.nodes(lab.node).qemu
    full, linked = vmid + 1, vmid + 2
    upid = vm.clone.post(newid=full, name="full", full=1)
    task(checks, prox, "full clone", upid)
    template = qemu(full)
    task(checks, prox, "template", template.template.post())
    checks.equal("template: flag", template.config.get().get("template"), 1)
    task(checks, prox, "linked clone", template.clone.post(newid=linked, name="linked"))
    error = checks.raises(
        "clone onto a taken id", ResourceException, lambda: vm.clone.post(newid=linked)
    )
    checks.has("clone onto a taken id: text", error, "already exists")
    for one in (linked, full, vmid):
        task(checks, prox, f"destroy {one}", qemu(one).delete(purge=1))
    left = [vm["vmid"] for vm in qemu.get()]
    checks.that("destroy: none is left", not {vmid, full, linked} & set(left), left)
    error = checks.raises("a VM that is gone", ResourceException, vm.config.get)
    checks.equal("a VM that is gone: status", error.status_code, 500)
    checks.has("a VM that is gone: content", error.content, "does not exist")


def agent(checks, prox, lab):
    """Check the guest agent of VM 900, also after a stop and start."""
    vm = prox.nodes(lab.node).qemu(900)

    def addresses():
        result = vm.agent("network-get-interfaces").get()
        found = {entry["name"]: entry for entry in result["result"]}
        return [entry["ip-address"] for entry in found["eth0"]["ip-addresses"]]

    checks.equal("agent: addresses", addresses(), ["10.0.0.90"])
    task(checks, prox, "agent: stop", vm.status.stop.post())
    error = checks.raises("agent of a stopped VM", ResourceException, addresses)
    checks.has("agent of a stopped VM: text", error, "VM 900 is not running")
    task(checks, prox, "agent: start", vm.status.start.post())
    checks.equal("agent: addresses again", addresses(), ["10.0.0.90"])


def errors(checks, prox, lab):
    qemu = prox.nodes(lab.node).qemu
    error = checks.raises(
        "wrong parameter", ResourceException, lambda: qemu.post(vmid=150, cores="many")
    )
    checks.equal("wrong parameter: status", error.status_code, 400)
    checks.equal("wrong parameter: content", error.content, "Parameter verification failed.")
    checks.has("wrong parameter: errors", (error.errors or {}).get("cores"), "type check")
    error = checks.raises("no such path", ResourceException, lambda: prox.nothing.here.get())
    checks.equal("no such path: status", error.status_code, 501)
    error = checks.raises(
        "unknown storage", ResourceException, lambda: qemu.post(vmid=150, scsi0="ghost:1")
    )
    checks.equal("unknown storage: status", error.status_code, 500)
    checks.has("unknown storage: content", error.content, "storage 'ghost' does not exist")
    poor = connect(
        lab, user="ops@pve", token_name="ci", token_value="11111111-2222-4333-8444-555555555555"
    )
    error = checks.raises(
        "token without rights",
        ResourceException,
        lambda: poor.nodes(lab.node).qemu(900).config.get(),
    )
    checks.equal("token without rights: status", error.status_code, 403)
    checks.has("token without rights: content", error.content, "(/vms/900, VM.Audit)")


def run(checks, lab, release):
    login(checks, lab, release)
    prox = by_password(lab)
    image = uploads(checks, prox, lab)
    machine(checks, prox, lab, image)
    agent(checks, prox, lab)
    errors(checks, prox, lab)
    machine(checks, by_token(lab), lab, image)
