#!/usr/bin/env python3
"""End to end: `h4a serve` and `h4a get` as a user runs them, and what they say when things go wrong.

usage: e2e_test.py H4A memif|veth      TAP on standard output

memif needs no privileges. veth makes two network namespaces and needs root, or user namespaces and a large limit on
locked memory; where they are not to be had it is skipped as a whole. Everything is in a temporary folder, and only
processes that were started here are ended.
"""
import concurrent.futures
import filecmp
import glob
import json
import os
import re
import http.client
import socket
import ssl
import subprocess
import sys
import threading
import time

from e2e_support import H4A, WORK, free_port, path, run_cases, run_main, started

with open(H4A, "rb") as binary:
    SANITIZED = b"__asan_init" in binary.read()


class Server:
    """`h4a serve` with the test's files, ready when this returns."""

    def __init__(self, port=None, https="127.0.0.1:0", inside=(), extra=()):
        self.memif = path("link-%d.sock" % len(started))
        self.log = open(path("server-%d.log" % len(started)), "w+")
        command = [*inside, H4A, "serve", "--root", path("root"), "--https", https]
        for address in ("10.99.0.1/24", "fd99::1/64"):
            command += ["--ip", address]
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


def get_command(server, name, extra, port=None, out="got", inside=(), ip="10.99.0.2/24"):
    return [*inside, H4A, "get", "https://%s/%s" % (server.https, name), "-o", path(out), "--ip", ip,
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


class Endpoint(threading.Thread):
    """Answers each connection with the same octets, with or without TLS, and ends it."""

    def __init__(self, answer, tls=True):
        super().__init__(daemon=True)
        self.answer, self.context = answer, None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(path("cert.pem"), path("key.pem"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.https = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.memif = path("nobody.sock")
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                request = connection.recv(65536)
                connection.sendall(self.answer(request) if callable(self.answer) else self.answer)
                if self.context:
                    connection.unwrap()
                connection.close()
            except OSError:
                if self.listener.fileno() < 0:
                    return


def resources(process):
    """Resident KiB and open descriptors."""
    with open("/proc/%d/status" % process.pid) as status:
        kib = int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
    return kib, len(os.listdir("/proc/%d/fd" % process.pid))


# ---- over memif ----


def sizes(server):
    for size in (0, 1, 4095, 4096, 4097, 3 << 20):
        report = get(server, str(size), "--require-h4a")
        assert report["protocol"] == "h4a" and report["size"] == size, report


def ranges_end_where_chunks_do(server):
    for name in ("1", "4095", "4096", "4097"):
        for chunk, in_flight in ((1, 1), (1, 32), (4, 2)):
            get(server, name, "--require-h4a", "--chunk", str(chunk), "--in-flight", str(in_flight))
    run = subprocess.run([*get_command(server, "1", ["-H", "Range: bytes=0-0"])], capture_output=True, text=True)
    assert run.returncode != 0 and "in ranges" in run.stderr, run


def over_ipv6(server):
    for name in ("0", "4097", str(3 << 20)):
        assert get(server, name, "--require-h4a", ip="fd99::2/64")["protocol"] == "h4a"


def faults_do_no_harm(server):
    report = get(server, str(3 << 20), "--require-h4a", "--loss", "0.01", "--duplicate", "0.01", "--reorder", "0.01",
                 "--corrupt", "0.01")
    assert report["drops"]["injected"] > 0, report


def capture_and_keys_are_right(_):
    server = Server()  # its own: one that served lossy sessions may still send again what they did not get
    get(server, str(4097), "--require-h4a", "--pcap", path("wire.pcapng"), "--esp-keys", path("esp_sa"))
    run = subprocess.run([H4A, "replay", path("wire.pcapng"), "--esp-keys", path("esp_sa"), "--json"], text=True,
                         capture_output=True, timeout=60)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    esp = [r for r in rows if "spi" in r]
    assert esp and all(r["verdict"] == "ok" and r["icv"] == "ok" for r in esp), esp
    server.stop()


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
    before = None
    for number in range(24):
        get(server, "4097", "--require-h4a")
        if number == 8:  # what is taken once is taken by now
            time.sleep(1)
            before = resources(server.process)
    for _ in range(100):  # the last client's link is taken down after the client is gone
        after = resources(server.process)
        if after[1] <= before[1]:
            break
        time.sleep(0.1)
    room = 1 << 18 if SANITIZED else 1024  # AddressSanitizer keeps what was freed
    assert after[0] <= before[0] + room and after[1] <= before[1], "resources: %s, then %s" % (before, after)


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


def slow(*more):
    return ["--chunk", "64", "--in-flight", "1", "--loss", "0.02", *more]


def a_killed_client_leaves_nothing(server):
    os.mkdir(path("out"))
    try:
        os.close(os.open(path("out"), os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return  # this file system has no files without names
    client = subprocess.Popen(get_command(server, str(64 << 20), slow(), out="out/got"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    started.append(client)
    time.sleep(1)
    assert client.poll() is None, "it was too fast to be killed"
    client.kill()
    client.wait()
    assert os.listdir(path("out")) == [], os.listdir(path("out"))


def a_response_cut_short_is_no_file(_):
    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
                   b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"):
        def of(request, answer=answer):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" if request[:4] == b"POST" else answer
        report = get(Endpoint(of), "1", code=1)
        assert report["protocol"] == "https" and "closed the connection early" in report["error"], report


def no_tls_is_no_certificate(_):
    report = get(Endpoint(b"HTTP/1.1 400 Bad Request\r\n\r\n", tls=False), "1", code=1)
    assert "is HTTPS spoken there?" in report["error"], report


def sessions_end_and_others_go_on(_):
    server = Server(extra=["--session-lifetime", "1"])
    report = get(server, str(64 << 20), "--require-h4a", *slow())
    assert report["protocol"] == "h4a" and report["sessions"] > 1, report
    server.stop()


def a_client_has_its_share_of_sessions(_):
    server = Server(extra=["--max-sessions-per-client", "1"])
    first = subprocess.Popen(get_command(server, str(64 << 20), slow(), out="first"), stdout=subprocess.DEVNULL)
    started.append(first)
    time.sleep(1)
    assert first.poll() is None, "it was too fast"
    report = get(server, "1", port="memif:" + path("nobody.sock"))
    assert report["protocol"] == "https" and "(429)" in report["fallback"], report
    first.kill()
    first.wait()
    server.process.kill()


def hostile_offers_are_refused(server):
    context = ssl.create_default_context(cafile=path("cert.pem"))
    host, port = server.https.rsplit(":", 1)
    offer = {"Content-Type": "application/vnd.h4a.offer"}
    statuses = set()
    for number in range(200):
        body = os.urandom(number * 80)
        if number % 4 == 0:
            body = bytes([16, 0, 0, 0]) + b"H4AO" + body
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)
        connection.request("POST", "/.well-known/h4a", body, offer if number % 5 else {})
        statuses.add(connection.getresponse().status)
        connection.close()
    assert statuses <= {400, 413, 415, 429} and 400 in statuses, statuses
    get(server, "4097", "--require-h4a")


def an_offer():
    """What a client of ours offers, as it came to an endpoint that refuses it."""
    seen = []

    def refuse(request):
        seen.append(request)
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    get(Endpoint(refuse), "1", code=3)
    offer = next(request.partition(b"\r\n\r\n")[2] for request in seen if request.startswith(b"POST"))
    assert offer[4:8] == b"H4AO", seen
    return offer


def post_offers(server, offer, sources, **headers):
    """One offer from each address, all at once. @return the statuses"""
    host, port = server.https.rsplit(":", 1)
    context = ssl.create_default_context(cafile=path("cert.pem"))

    def post(source):
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30, source_address=(source, 0))
        connection.request("POST", "/.well-known/h4a", offer, {"Content-Type": "application/vnd.h4a.offer", **headers})
        status = connection.getresponse().status
        connection.close()
        return status
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        return list(pool.map(post, sources))


def offers_that_nobody_confirms(_):
    """Of one address, of one client with many, and of many: each meets its limit, the last one that of the server."""
    server = Server()
    offer = an_offer()
    floods = [("one address", ["127.0.0.2"] * 48, {}, 429),
              ("one client", ["127.0.1.%d" % n for n in range(1, 49)], {"Authorization": "Bearer same"}, 429),
              ("many clients", ["127.0.2.%d" % n for n in range(1, 129)], {}, 503)]
    for name, sources, headers, status in floods:
        begin = time.monotonic()
        statuses = post_offers(server, offer, sources, **headers)
        assert set(statuses) == {200, status}, (name, statuses)
        if status == 429 and time.monotonic() - begin < 5:  # until then none expires
            assert statuses.count(200) == 16, (name, statuses)
        if status == 429:
            assert get(server, "4097", "--require-h4a")["protocol"] == "h4a"
    assert get(server, "4097")["size"] == 4097  # over HTTPS, but for those that have expired
    time.sleep(6)
    assert get(server, "4097", "--require-h4a")["protocol"] == "h4a"
    server.stop()


MEMIF = [sizes, ranges_end_where_chunks_do, over_ipv6, a_killed_client_leaves_nothing, a_response_cut_short_is_no_file,
         no_tls_is_no_certificate, sessions_end_and_others_go_on, a_client_has_its_share_of_sessions,
         hostile_offers_are_refused, offers_that_nobody_confirms,
         faults_do_no_harm, capture_and_keys_are_right, other_statuses, a_dead_path_falls_back, the_disk_is_full,
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


class Veth:
    """Two namespaces and a link between them; the kernel has 10.98.0.0/24 on it, for HTTPS."""

    def __init__(self, mtu):
        self.inside = [["nsenter", "--net", "--target", str(namespace())] for _ in (0, 1)]
        self.ip(0, "link", "add", "h4a-e2e0", "mtu", str(mtu), "type", "veth", "peer", "name", "h4a-e2e1", "mtu",
                str(mtu), "netns", self.inside[1][-1])
        for side in (0, 1):
            self.ip(side, "link", "set", "h4a-e2e%d" % side, "up")
            self.ip(side, "address", "add", "10.98.0.%d/24" % (side + 1), "dev", "h4a-e2e%d" % side)
        self.server = Server(port="af_packet:h4a-e2e0", https="10.98.0.1:8443", inside=self.inside[0])

    def ip(self, side, *words):
        subprocess.run([*self.inside[side], "ip", *words], check=True, capture_output=True)

    def mac(self, side):
        show = subprocess.run([*self.inside[side], "ip", "-o", "link", "show", "h4a-e2e%d" % side], check=True, text=True,
                              capture_output=True)
        return re.search(r"link/ether (\S+)", show.stdout).group(1)

    def get(self, size, *extra, **more):
        return get(self.server, str(size), *extra, port="af_packet:h4a-e2e1", inside=self.inside[1], **more)


def loss_on_a_veth_pair(_):
    link = Veth(9000)
    report = link.get(64 << 20, "--require-h4a", "--loss", "0.01")
    assert report["protocol"] == "h4a" and report["seconds"] < 60, report
    assert link.get(3 << 20, "--require-h4a", ip="fd99::2/64")["protocol"] == "h4a"
    link.server.stop()


def links_of_every_mtu(_):
    for mtu in (576, 1280, 1500):
        link = Veth(mtu)
        for size in (1, 4097, 3 << 20):
            assert link.get(size, "--require-h4a")["protocol"] == "h4a"
        if mtu >= 1280:  # RFC 8200 section 5: no IPv6 below
            assert link.get(3 << 20, "--require-h4a", ip="fd99::2/64")["protocol"] == "h4a"
        link.server.stop()


# Frames of every kind to both ends: noise, and what begins as ARP, IPv4, ESP, RoCE or IPv6 and goes on as noise.
GARBAGE = """
import os, random, socket, struct, sys, time
random.seed(1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
macs = [bytes.fromhex(text.replace(":", "")) for text in (*sys.argv[2:], "ff:ff:ff:ff:ff:ff")]
for _ in range(4000):
    data = os.urandom(random.randrange(0, 1400))
    source, target = (bytes([10, 99, 0, n]) for n in random.choice([(1, 2), (2, 1), (3, 1), (1, 1)]))
    protocol = random.choice([17, 50, 1, 0, 255])
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(data), 0) if protocol == 17 else b""
    v4 = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp) + len(data), 1, 0, 64, protocol, 0) + source + target
    total = sum(struct.unpack(">10H", v4))
    total = (total & 0xffff) + (total >> 16)
    v4 = v4[:10] + struct.pack(">H", ~((total & 0xffff) + (total >> 16)) & 0xffff) + v4[12:]
    kind, body = random.choice([(0x0800, v4 + udp + data), (0x0800, v4 + udp + data), (0x0800, data), (0x0806, data),
                                (0x86dd, b"\\x60" + data), (0x8100, data), (random.randrange(65536), data)])
    try:
        s.send(random.choice(macs) + os.urandom(6) + struct.pack(">H", kind) + body)
    except OSError:
        pass
    time.sleep(0.0005)
"""


def garbage_on_the_link(_):
    link = Veth(1500)
    noise = []
    for side in (0, 1):
        noise.append(subprocess.Popen([*link.inside[side], sys.executable, "-c", GARBAGE, "h4a-e2e%d" % side,
                                       link.mac(0), link.mac(1)]))
    started.extend(noise)
    for _ in range(3):
        assert link.get(3 << 20, "--require-h4a", "--loss", "0.01")["protocol"] == "h4a"
    for process in noise:
        assert process.wait(60) == 0, "no garbage was sent"
    link.server.stop()


def a_link_that_goes_down_and_up(_):
    link = Veth(1500)

    def flap():
        link.ip(0, "link", "set", "h4a-e2e0", "down")
        time.sleep(0.2)
        link.ip(0, "link", "set", "h4a-e2e0", "up")

    timer = threading.Timer(1, flap)
    timer.start()
    report = link.get(64 << 20, *slow())  # over HTTPS if the pause was too long for the session
    timer.join()
    assert report["seconds"] > 1, "it was too fast: %s" % report
    assert link.get(4097, "--require-h4a")["protocol"] == "h4a"
    link.server.stop()


VETH = [loss_on_a_veth_pair, links_of_every_mtu, garbage_on_the_link, a_link_that_goes_down_and_up]


def may_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


def main():
    if sys.argv[2] == "veth" and not may_make_namespaces():
        print("1..0 # SKIP network namespaces need root here")
        return 0
    cases = VETH if sys.argv[2] == "veth" else MEMIF
    prepare()
    server = Server() if sys.argv[2] == "memif" else None
    failed = run_cases(cases, server)
    if server:
        server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
