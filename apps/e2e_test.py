#!/usr/bin/env python3
"""End to end: `h4a serve` and `h4a get` as a user runs them, and what they say when things go wrong.

usage: e2e_test.py H4A memif|veth      TAP on standard output

memif needs no privileges. veth makes two network namespaces and needs root, or user namespaces and a large limit on
locked memory; where they are not to be had it is skipped as a whole. Everything is in a temporary folder, and only
processes that were started here are ended.
"""
import filecmp
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

H4A = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="h4a-e2e-")
started = []


def path(name):
    return os.path.join(WORK, name)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`h4a serve` with the test's files, ready when this returns."""

    def __init__(self, port=None, https="127.0.0.1:0", inside=(), extra=()):
        self.memif = path("link-%d.sock" % len(started))
        self.log = open(path("server-%d.log" % len(started)), "w+")
        command = [*inside, H4A, "serve", "--root", path("root"), "--ip", "10.99.0.1/24", "--https", https]
        command += ["--port", port or "memif:%s,role=server" % self.memif]
        command += ["--cert", path("cert.pem"), "--key", path("key.pem"), *extra]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        started.append(self.process)
        for _ in range(400):
            match = re.search(r"on https://(\S+)/,", self.text())
            if match:
                self.https = match.group(1)
                return
            assert self.process.poll() is None, "the server ended: " + self.text()
            time.sleep(0.05)
        raise AssertionError("the server does not start: " + self.text())

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0, self.text()


def get_command(server, name, extra, port=None, out="got", inside=()):
    return [*inside, H4A, "get", "https://%s/%s" % (server.https, name), "-o", path(out), "--ip", "10.99.0.2/24",
            "--port", port or "memif:" + server.memif, "--cacert", path("cert.pem"), "--json", *extra]


def get(server, name, *extra, code=0, same=True, **more):
    """Runs `h4a get` and returns its JSON, which it has to print in every outcome."""
    out = path(more.get("out", "got"))
    if os.path.exists(out):
        os.unlink(out)
    run = subprocess.run(get_command(server, name, extra, **more), capture_output=True, text=True, timeout=90)
    said = run.stdout + run.stderr
    assert run.returncode == code, "exit code %d, expected %d: %s" % (run.returncode, code, said)
    report = json.loads(run.stdout)
    assert report["exit_code"] == code, said
    if code == 0 and same:
        assert filecmp.cmp(out, path("root/" + name), shallow=False), "the file differs: " + said
    if code != 0:
        assert not os.path.exists(out), "a file stands under the final name after a failure"
    assert not glob.glob(out + ".part*"), "a partial file was left"
    return report


def prepare():
    os.mkdir(path("root"))
    for size in (0, 1, 4095, 4096, 4097, 3 << 20, 64 << 20):
        with open(path("root/%d" % size), "wb") as f:
            f.write(os.urandom(size))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=e2e", "-addext", "subjectAltName=IP:127.0.0.1,IP:10.98.0.1", "-days", "2",
                    "-keyout", path("key.pem"), "-out", path("cert.pem")], check=True, capture_output=True)


# ---- over memif ----


def sizes(server):
    for size in (0, 1, 4095, 4096, 4097, 3 << 20):
        report = get(server, str(size), "--require-h4a")
        assert report["protocol"] == "h4a" and report["size"] == size, report


def faults_do_no_harm(server):
    report = get(server, str(3 << 20), "--require-h4a", "--loss", "0.01", "--duplicate", "0.01", "--reorder", "0.01",
                 "--corrupt", "0.01")
    assert report["drops"]["injected"] > 0, report


def capture_and_keys_are_right(server):
    get(server, str(4097), "--require-h4a", "--pcap", path("wire.pcapng"), "--esp-keys", path("esp_sa"))
    run = subprocess.run([H4A, "replay", path("wire.pcapng"), "--esp-keys", path("esp_sa"), "--json"], text=True,
                         capture_output=True, timeout=60)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    esp = [r for r in rows if "spi" in r]
    assert esp and all(r["verdict"] == "ok" and r["icv"] == "ok" for r in esp), esp


def other_statuses(server):
    assert "404" in get(server, "nothing-here", code=3)["error"]
    assert "403" in get(server, "%2e%2e/key.pem", "--require-h4a", code=3)["error"]


def a_dead_path_falls_back(server):
    nowhere = "memif:" + path("nobody.sock")
    report = get(server, str(4097), port=nowhere)
    assert report["protocol"] == "https" and report["fallback"] and report["seconds"] < 15, report
    assert get(server, str(4097), "--require-h4a", port=nowhere, code=1)["error"]


def the_disk_is_full(server):
    run = subprocess.run([H4A, *get_command(server, "4097", [])[1:3], "-o", "/dev/full", "--ip", "10.99.0.2/24",
                          "--port", "memif:" + server.memif, "--cacert", path("cert.pem")], capture_output=True, text=True)
    assert run.returncode == 1 and "No space left" in run.stderr, run
    assert not os.path.isfile("/dev/full")


def a_wrong_certificate_is_refused(server):
    subprocess.run(["openssl", "req", "-x509", "-key", path("key.pem"), "-subj", "/CN=other", "-out", path("other.pem")],
                   check=True, capture_output=True)
    command = [path("other.pem") if word == path("cert.pem") else word for word in get_command(server, "1", [])]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 4 and "certificate" in json.loads(run.stdout)["error"], run


def many_one_after_the_other(server):
    for _ in range(20):
        get(server, "1", "--require-h4a")


def a_second_server_leaves_the_first_alone(server):
    run = subprocess.run([H4A, "serve", "--root", path("root"), "--ip", "10.99.0.9/24", "--https", "127.0.0.1:0",
                          "--port", "memif:%s,role=server" % server.memif, "--self-signed"], capture_output=True,
                         text=True, timeout=30)
    assert run.returncode == 1 and "another process is the server" in run.stderr, run
    get(server, "1", "--require-h4a")


def a_killed_server_ends_the_client(_):
    server = Server()
    killer = threading.Timer(0.7, server.process.kill)
    killer.start()
    report = get(server, str(64 << 20), "--chunk", "64", "--in-flight", "1", "--loss", "0.05", code=1)
    killer.join()
    assert report["error"], report


MEMIF = [sizes, faults_do_no_harm, capture_and_keys_are_right, other_statuses, a_dead_path_falls_back, the_disk_is_full,
         a_wrong_certificate_is_refused, many_one_after_the_other, a_second_server_leaves_the_first_alone,
         a_killed_server_ends_the_client]


# ---- over a veth pair ----


def namespace():
    """A process that holds a network namespace. Its pid stands for it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"], stderr=subprocess.DEVNULL)
    started.append(holder)
    own = os.readlink("/proc/self/ns/net")
    for _ in range(100):
        try:
            if os.readlink("/proc/%d/ns/net" % holder.pid) != own:
                return holder.pid
        except OSError:
            pass
        if holder.poll() is not None:
            break
        time.sleep(0.05)
    return None


def loss_on_a_veth_pair(_):
    left, right = namespace(), namespace()
    inside = [["nsenter", "--net", "--target", str(pid)] for pid in (left, right)]

    def ip(side, *words):
        subprocess.run([*inside[side], "ip", *words], check=True, capture_output=True)

    ip(0, "link", "add", "h4a-e2e0", "mtu", "9000", "type", "veth", "peer", "name", "h4a-e2e1", "mtu", "9000", "netns",
       str(right))
    for side in (0, 1):
        ip(side, "link", "set", "h4a-e2e%d" % side, "up")
        ip(side, "address", "add", "10.98.0.%d/24" % (side + 1), "dev", "h4a-e2e%d" % side)
    server = Server(port="af_packet:h4a-e2e0", https="10.98.0.1:8443", inside=inside[0])
    report = get(server, str(64 << 20), "--require-h4a", "--loss", "0.01", port="af_packet:h4a-e2e1", inside=inside[1])
    assert report["protocol"] == "h4a" and report["seconds"] < 60, report
    server.stop()


def may_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


def run(cases, server):
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            case(server)
            print("ok %d - %s" % (number, case.__name__), flush=True)
        except Exception as problem:  # the next case is worth running all the same
            failed += 1
            text = str(problem).replace("\n", "\n# ")
            print("not ok %d - %s\n# %s: %s" % (number, case.__name__, type(problem).__name__, text), flush=True)
    return failed


def main():
    if sys.argv[2] == "veth" and not may_make_namespaces():
        print("1..0 # SKIP network namespaces need root here")
        return 0
    cases = [loss_on_a_veth_pair] if sys.argv[2] == "veth" else MEMIF
    print("1..%d" % len(cases), flush=True)
    prepare()
    server = Server() if sys.argv[2] == "memif" else None
    failed = run(cases, server)
    if server:
        server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        shutil.rmtree(WORK, ignore_errors=True)
