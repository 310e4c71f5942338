"""Start and stop of `talmox lab serve`, and a counter of checks."""

import json
import os
import subprocess
import tempfile


class Checks:
    """Counter of checks. Every check prints a line; a failed check fails the run."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.prefix = ""

    def that(self, name, condition, detail=""):
        if condition:
            self.passed += 1
            print(f"ok      {self.prefix} {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED  {self.prefix} {name}: {detail!r}", flush=True)

    def equal(self, name, found, expected):
        self.that(name, found == expected, f"found {found!r}, expected {expected!r}")

    def has(self, name, found, part):
        self.that(name, part in str(found), f"{part!r} is not in {found!r}")

    def raises(self, name, kind, call):
        """Return the exception of the call, which must be of this type."""
        try:
            result = call()
        except kind as error:
            self.that(name, True)
            return error
        except Exception as error:  # pylint: disable=broad-except
            self.that(name, False, f"{type(error).__name__}: {error}")
            return error
        self.that(name, False, f"no exception, but {result!r}")
        return None


class Lab:
    """Lab that runs during a `with` block."""

    def __init__(self, binary, scenario, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="talmox-lab-")
        path = os.path.join(self.folder.name, "scenario.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(scenario)
        self.process = subprocess.Popen(
            [binary, "lab", "serve", "--format", "json", "--scenario", path, *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the lab did not start: exit code {self.process.wait()}")
        pve = json.loads(line)["pve"]
        self.url = pve["url"].rstrip("/")
        self.host, self.port = self.url.removeprefix("https://").rsplit(":", 1)
        self.node = pve["node"]
        self.ca = pve["ca"]
        self.fingerprint = pve["fingerprint"]
        self.token_id, self.token_secret = pve["token_id"], pve["token_secret"]
        self.username, self.password = pve["username"], pve["password"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.exit_code = self.process.wait(timeout=20)
        self.folder.cleanup()
