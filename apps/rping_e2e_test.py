#!/usr/bin/env python3
"""End to end: `h4a rping` against itself over memif, as a user runs it.

usage: rping_e2e_test.py H4A      TAP on standard output

Needs no privileges. Everything is in a temporary folder, and only processes that were started here are ended.
"""
import json
import os
import signal
import subprocess
import time

from e2e_support import H4A, path, run_cases, run_main, started


class Server:
    """`h4a rping -s`; its port is open when this returns."""

    def __init__(self, *extra):
        self.link = path("%d.sock" % len(started))
        self.process = subprocess.Popen([H4A, "rping", "-s", "--ip", "10.99.4.1/24", "--port",
                                         "memif:%s,role=server" % self.link, "--json", *extra],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(self.process)
        for _ in range(500):
            if os.path.exists(self.link):
                return
            time.sleep(0.02)
        raise AssertionError("the server does not start")

    def client(self, *extra, address="10.99.4.1", code=0):
        run = subprocess.run([H4A, "rping", "-c", "-a", address, "--ip", "10.99.4.2/24", "--port", "memif:" + self.link,
                              "--json", *extra], capture_output=True, text=True, timeout=60)
        assert run.returncode == code, "exit code %d: %s%s" % (run.returncode, run.stdout, run.stderr)
        return json.loads(run.stdout)

    def report(self):
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, "exit code %d: %s%s" % (self.process.returncode, out, errors)
        return json.loads(out)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.report()


def sizes():
    for size in ("100", "65535"):
        server = Server()
        report = server.client("-C", "20", "-V", "-S", size)
        assert report["pings"] == 20 and report["round_trip_us"]["least"] > 0, report
        assert server.report()["pings"] == 20


def in_spite_of_loss():
    server = Server()
    report = server.client("-C", "20", "-V", "-S", "3000", "--loss", "0.02")
    assert report["pings"] == 20 and report["drops"]["injected"] > 0, report
    assert server.report()["pings"] == 20


def many_clients_one_after_the_other():
    server = Server("-P")
    for _ in range(3):
        assert server.client("-C", "2", "-V")["pings"] == 2
    report = server.stop()
    assert report["connections"] == 3 and report["pings"] == 6, report


def refusals_and_bad_lines():
    server = Server("-P")
    assert "nobody listens" in server.client("-C", "1", "-p", "9999", code=1)["error"]
    assert "no route" in server.client("-C", "1", address="192.168.7.7", code=1)["error"]
    server.stop()
    for wrong in (["-s", "-c"], ["-c"], ["-c", "-a", "nonsense"]):
        run = subprocess.run([H4A, "rping", *wrong, "--ip", "10.99.4.2/24", "--port", "memif:" + path("none.sock")],
                             capture_output=True, text=True, timeout=30)
        assert run.returncode == 2 and run.stderr, run


CASES = [sizes, in_spite_of_loss, many_clients_one_after_the_other, refusals_and_bad_lines]


if __name__ == "__main__":
    run_main(lambda: 1 if run_cases(CASES) else 0)
