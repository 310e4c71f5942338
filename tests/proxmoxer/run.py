"""Test `talmox lab serve` with third-party clients, on both releases.

Usage: run.py PATH-OF-TALMOX
"""

import sys

import client
import terraform
from lab import Checks, Lab

SCENARIO = """
release: "{release}"
nodes: [pve]
storages:
  - {{storage: local, type: dir, path: /var/lib/vz, content: "iso,vztmpl,backup,import"}}
  - {{storage: local-lvm, type: lvmthin, vgname: pve, thinpool: data, content: images}}
vms:
  - vmid: 900
    status: running
    config: {{name: guest, memory: 512, agent: 1, net0: "virtio=BC:24:11:00:00:90,bridge=vmbr0"}}
    guest:
      hostname: guest
      interfaces: [{{name: eth0, mac: "BC:24:11:00:00:90", addresses: [10.0.0.90/24]}}]
access:
  users: [{{userid: root@pam, password: open-sesame}}, ops@pve]
  tokens:
    - {{tokenid: root@pam!lab, privsep: 0}}
    - {{tokenid: ops@pve!ci, secret: 11111111-2222-4333-8444-555555555555}}
"""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checks = Checks()
    for release in ("9.2", "8.4"):
        checks.prefix = release
        lab = Lab(sys.argv[1], SCENARIO.format(release=release), "--seed", "7", "--speed", "20")
        with lab:
            checks.equal("password of the scenario", lab.password, "open-sesame")
            client.run(checks, lab, release)
            terraform.run(checks, lab)
        checks.equal("SIGTERM ends it cleanly", lab.exit_code, 0)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


if __name__ == "__main__":
    sys.exit(main())
