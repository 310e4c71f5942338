"""Changes of a running cluster with one worker: each is made by `talmox` and checked on the real nodes, in QEMU and with kubectl."""
import json, os, time

from report import check, say, wait_for

UNUSED_ADDRESS = "10.77.0.99"
# A config that makes the node unreachable is reverted after two minutes. The rest is observation and software emulation.
REVERT_LIMIT = 600
NEW_MEMORY = 5120


class WorkerChanges:
    def __init__(self, cluster, host):
        self.cluster, self.host = cluster, host
        self.control_plane = cluster.nodes[0][0]
        self.name, _, self.vmid = cluster.nodes[1]

    def run(self):
        steps = (self.add_label, self.change_nameservers, self.change_memory, self.reboot, self.delete_node_object,
                 self.set_wrong_gateway, self.maintain_etcd, self.remove)
        for step in steps:
            begin = time.monotonic()
            say(f"  {step.__doc__}")
            step()
            say(f"  took {time.monotonic() - begin:.0f} s: {step.__doc__}")

    def add_label(self):
        """a label of the worker is added"""
        boot = self.boot_id()
        self.worker["labels"] = {"rack": "r1"}
        self.up()
        self.check_label()
        check(self.boot_id() == boot, f"{self.name} was not rebooted")
        check(not self.node()["spec"].get("unschedulable"), f"{self.name} is not cordoned")

    def change_nameservers(self):
        """the nameservers of all nodes are changed"""
        boot = self.boot_id()
        self.cluster.inventory["network"]["nameservers"] = [self.host, UNUSED_ADDRESS]
        self.up()
        self.cluster.render()
        for name, _, _ in self.cluster.nodes:
            self.cluster.check_config(name)
            resolvers = self.cluster.talmox("node", "get", name, "resolvers", "--format", "json").stdout
            check(UNUSED_ADDRESS in resolvers, f"{name} uses the nameservers")
        check(self.boot_id() == boot, f"{self.name} was not rebooted")
        self.check_plan_is_empty()

    def change_memory(self):
        """the memory of the worker is changed"""
        boot, before = self.boot_id(), self.qemu_memory()
        check(before != NEW_MEMORY, f"the machine of {self.name} has {before} MiB")
        self.worker["memory"] = NEW_MEMORY
        output = self.up()
        check(f"node/{self.name}/drain" in output, f"{self.name} was drained")
        check(self.qemu_memory() == NEW_MEMORY, f"the machine of {self.name} has {NEW_MEMORY} MiB")
        self.check_rebooted(boot)
        self.check_plan_is_empty()

    def reboot(self):
        """the worker is rebooted"""
        boot = self.boot_id()
        self.cluster.talmox("node", "reboot", self.name, "--yes")
        self.check_rebooted(boot)

    def delete_node_object(self):
        """the Node object of the worker is deleted"""
        self.cluster.kubectl("delete", "node", self.name, "--wait")
        check(self.name not in self.cluster.kubectl("get", "nodes", "--no-headers"), f"kubectl does not list {self.name}")
        self.up()
        wait_for(self.is_ready, f"{self.name} is registered and Ready again")
        self.check_label()
        self.check_plan_is_empty()

    def set_wrong_gateway(self):
        """the worker gets a route with a wrong gateway to the machine of talmox"""
        boot, config = self.boot_id(), self.stored_config()
        mac = next(line.split()[-1] for line in config.splitlines() if "hardwareAddr:" in line)
        # The machine of talmox is in the subnet of the nodes, so a wrong default gateway would not make the node unreachable.
        routes = [{"network": f"{self.host}/32", "gateway": UNUSED_ADDRESS}]
        interface = {"deviceSelector": {"hardwareAddr": mac}, "routes": routes}
        self.worker["patches"] = [{"machine": {"network": {"interfaces": [interface]}}}]
        begin = time.monotonic()
        output = self.up(status=1)
        took = time.monotonic() - begin
        check(took < REVERT_LIMIT, f"up fails after {took:.0f} s, at most {REVERT_LIMIT}")
        check("reverted" in output, f"up reports that {self.name} has reverted its config")
        check(self.stored_config() == config, f"{self.name} answers, with its former config")
        check(self.boot_id() == boot, f"{self.name} was not rebooted")
        del self.worker["patches"]
        self.cluster.save_inventory()
        self.check_plan_is_empty()

    def maintain_etcd(self):
        """etcd is listed and defragmented"""
        members = json.loads(self.cluster.talmox("etcd", "members", "--format", "json").stdout)["members"]
        check([member["name"] for member in members] == [self.control_plane], f"etcd has the member {self.control_plane}")
        check(members[0]["leader"] and members[0]["db_size"] > 0, f"the member leads, with {members[0]['db_size']} bytes")
        self.cluster.talmox("etcd", "defrag", "--yes")
        services = self.cluster.talmox("node", "services", self.control_plane).stdout
        check("etcd" in services, "etcd defrag succeeds")
        wait_for(self.is_ready, "Kubernetes answers after the defragmentation")
        alarms = self.cluster.talmox("etcd", "alarms").stdout
        check("no active alarms" in alarms, "etcd has no alarms")

    def remove(self):
        """the worker is removed"""
        self.cluster.inventory["workers"] = []
        output = self.up(status=3)
        check("--allow-removal" in output, "up names the flag that allows the removal")
        wait_for(lambda: self.is_ready() and self.qemu_memory() == NEW_MEMORY, f"without consent {self.name} still runs")
        output = self.up("--allow-removal")
        for step in f"node/{self.name}/drain", f"talos/{self.name}/reset", f"node/{self.name}/delete", f"vm/{self.name}/destroy":
            check(f"✓ {step}" in output, f"the step {step} was executed")
        check("is not reset" not in output and "did not power off" not in output, f"{self.name} wiped its disks and powered off")
        listed = self.cluster.kubectl("get", "nodes", "--no-headers").splitlines()
        names = [line.split()[0] for line in listed]
        check(names == [self.control_plane], f"kubectl lists only {self.control_plane}")
        wait_for(lambda: not os.path.isdir(self.folder), f"the machine of {self.name} is deleted", 30)
        self.check_plan_is_empty()

    @property
    def worker(self):
        return self.cluster.inventory["workers"][0]

    @property
    def folder(self):
        return f"{self.cluster.work}/vm{self.vmid}"

    def up(self, *arguments, status=0):
        """Runs `up` with the changed inventory, and returns its output."""
        self.cluster.save_inventory()
        done = self.cluster.talmox("up", "--yes", *arguments, status=status)
        with open(f"{self.cluster.folder}/up.log", "a") as file:
            file.write(done.stdout + done.stderr)
        # A changed config of the control plane restarts the API server.
        wait_for(lambda: self.cluster.kubectl("get", "nodes"), "Kubernetes answers")
        return done.stdout + done.stderr

    def node(self):
        return json.loads(self.cluster.kubectl("get", "node", self.name, "--output", "json"))

    def boot_id(self):
        return self.node()["status"]["nodeInfo"]["bootID"]

    def is_ready(self):
        conditions = {condition["type"]: condition["status"] for condition in self.node()["status"]["conditions"]}
        return conditions.get("Ready") == "True"

    def stored_config(self):
        return self.cluster.stored_config(self.name)

    def qemu_memory(self):
        with open(f"{self.folder}/pid") as file, open(f"/proc/{int(file.read())}/cmdline") as line:
            arguments = line.read().split("\0")
        return int(arguments[arguments.index("-m") + 1])

    def check_label(self):
        wait_for(lambda: self.node()["metadata"]["labels"].get("rack") == "r1", f"kubectl shows the label of {self.name}")

    def check_rebooted(self, boot):
        wait_for(lambda: self.is_ready() and self.boot_id() != boot, f"{self.name} has booted again and is Ready")
        check(not self.node()["spec"].get("unschedulable"), f"{self.name} is uncordoned")

    def check_plan_is_empty(self):
        """A plan also shows nodes and static pods that are still starting, which takes minutes under software emulation."""
        is_empty = lambda: self.cluster.talmox("plan", "--detailed-exitcode", status=None).returncode == 0
        wait_for(is_empty, "plan has nothing to do")
