"""Requests like those of Terraform's bpg/proxmox provider."""

import hashlib
import ssl
import time

import requests
from requests.adapters import HTTPAdapter


class OnlyTls13(HTTPAdapter):
    """TLS context with TLS 1.3 only, which trusts the CA of the lab."""

    def __init__(self, ca):
        self.context = ssl.create_default_context(cafile=ca)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        super().__init__()

    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, ssl_context=self.context, **kwargs)


class Api:
    def __init__(self, lab):
        self.base = f"{lab.url}/api2/json"
        self.session = requests.Session()
        self.session.mount("https://", OnlyTls13(lab.ca))
        token = f"PVEAPIToken={lab.token_id}={lab.token_secret}"
        self.session.headers["Authorization"] = token
        self.session.headers["Accept"] = "application/json"

    def send(self, method, path, **options):
        return self.session.request(method, self.base + path, timeout=30, **options)

    def data(self, method, path, **options):
        answer = self.send(method, path, **options)
        answer.raise_for_status()
        return answer.json()["data"]

    def task(self, upid):
        node = upid.split(":")[1]
        for _ in range(3000):
            status = self.data("GET", f"/nodes/{node}/tasks/{upid}/status")
            if status["status"] == "stopped":
                return status["exitstatus"]
            time.sleep(0.02)
        return "does not end"


def certificate(checks, lab):
    pem = ssl.get_server_certificate((lab.host, int(lab.port)))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    checks.equal("fingerprint", lab.fingerprint.replace(":", "").upper(), digest)


def create(checks, api, node):
    form = {
        "vmid": 800,
        "name": "tf",
        "memory": "2048",
        "cores": 2,
        "agent": "enabled=1,fstrim_cloned_disks=0,type=virtio,",
        "scsihw": "virtio-scsi-pci",
        "scsi0": "file=local-lvm:8,format=raw,discard=on,ssd=1,",
        "net0": "model=virtio,bridge=vmbr0,firewall=0,macaddr=BC:24:11:2E:C0:01,",
        "ide2": "file=none,media=cdrom",
        "boot": "order=scsi0",
        "onboot": 1,
        "serial0": "socket",
    }
    upid = api.data("POST", f"/nodes/{node}/qemu", data=form)
    checks.equal("create with file= and trailing commas", api.task(upid), "OK")
    config = api.data("GET", f"/nodes/{node}/qemu/800/config")
    checks.equal(
        "create: the disk", config["scsi0"], "local-lvm:vm-800-disk-0,discard=on,size=8G,ssd=1"
    )
    checks.equal("create: the CD drive", config["ide2"], "none,media=cdrom")
    checks.equal(
        "create: the NIC", config["net0"], "virtio=BC:24:11:2E:C0:01,bridge=vmbr0,firewall=0"
    )


def rewrite(checks, api, node):
    path = f"/nodes/{node}/qemu/800/config"

    def drive(value):
        answer = api.send("PUT", path, data={"scsi0": value})
        return answer.status_code, api.data("GET", path)["scsi0"]

    kept = (200, "local-lvm:vm-800-disk-0,cache=none,size=8G")
    found = drive("file=local-lvm:vm-800-disk-0,cache=none,")
    checks.equal("a drive rewritten without size keeps it", found, kept)
    found = drive("file=local-lvm:vm-800-disk-0,cache=none,size=8589934592")
    checks.equal("a drive rewritten with its size in bytes", found, kept)
    form = {"disk": "scsi0", "size": str(9 << 30)}
    upid = api.data("PUT", f"/nodes/{node}/qemu/800/resize", data=form)
    checks.equal("resize in bytes", api.task(upid), "OK")
    checks.has("resize in bytes: size", api.data("GET", path)["scsi0"], "size=9G")
    answer = api.send("PUT", path, data={"delete": "net7,scsi9,description,tags"})
    found = (answer.status_code, answer.json())
    checks.equal("delete of absent options", found, (200, {"data": None}))
    answer = api.send("PUT", path, data={"delete": "ide2,serial0"})
    checks.equal("delete of options", answer.status_code, 200)
    checks.that("delete of options: gone", "ide2" not in api.data("GET", path))
    upid = api.data("POST", path, data={"description": "by task", "cores": 4})
    checks.equal("config by POST", api.task(upid), "OK")
    answer = api.send("PUT", path, json={"onboot": False, "cores": 3})
    checks.equal("a JSON body", answer.status_code, 200)
    config = api.data("GET", path)
    checks.equal("a JSON body: values", (config["onboot"], config["cores"]), (0, 3))


def refusals(checks, api, lab):
    node = lab.node
    answer = api.send("GET", f"/nodes/{node}/qemu/999/config")
    text = f"Configuration file 'nodes/{node}/qemu-server/999.conf' does not exist"
    checks.equal("error: status", answer.status_code, 500)
    checks.equal("error: the reason phrase is the text", answer.reason, text)
    checks.equal("error: the body has it too", answer.json()["message"].strip(), text)
    checks.equal("error: no data", answer.json()["data"], None)
    closing = answer.headers.get("Connection", "").lower()
    checks.equal("error: the connection closes", closing, "close")
    answer = api.send("DELETE", f"/nodes/{node}/qemu/800", data={"purge": 1})
    checks.equal("DELETE with a body", answer.status_code, 501)
    answer = api.send("POST", f"/nodes/{node}/qemu", data=iter([b"vmid=801"]))
    checks.equal("a chunked body", answer.status_code, 501)
    answer = requests.get(api.base + "/version", timeout=30, verify=lab.ca)
    checks.equal("without credentials", (answer.status_code, answer.content), (401, b""))
    answer = api.send("GET", "/nodes/nowhere/qemu")
    checks.equal("unknown host: status", answer.status_code, 500)
    checks.has("unknown host: text", answer.reason, "hostname lookup 'nowhere' failed")


def destroy(checks, api, node):
    answer = api.send("DELETE", f"/nodes/{node}/qemu/800/?purge=1&destroy-unreferenced-disks=1")
    checks.equal("DELETE with a slash at the end", answer.status_code, 200)
    checks.equal("DELETE: task", api.task(answer.json()["data"]), "OK")
    left = [vm["vmid"] for vm in api.data("GET", f"/nodes/{node}/qemu")]
    checks.that("DELETE: gone", 800 not in left, left)


def run(checks, lab):
    api = Api(lab)
    certificate(checks, lab)
    create(checks, api, lab.node)
    rewrite(checks, api, lab.node)
    refusals(checks, api, lab)
    destroy(checks, api, lab.node)
