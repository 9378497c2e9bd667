#!/usr/bin/env python3
"""Checks which layer includes what, and a few rules that keep files readable. Run as a test (suite style).

Layers (docs/ARCHITECTURE.md): LAYERS says for each folder which folders of lib/ its files may include. A test,
fuzz target or benchmark may also include lib/test, lib/sim and the homes that it runs on (TESTS_MAY). Third-party
headers that would tie a layer to a device, a server or a format have a fixed home (THIRD_PARTY).
Other rules: at most 600 lines a file, no marks of unfinished work. (clang-format sees to the columns.)

usage: check_layers.py [ROOT]; prints one line a violation, exit code 1 if there is any.
`check_layers.py --self-test` proves on made-up files that each rule fires.
"""

import pathlib
import re
import sys
import tempfile

LAYERS = {
    "base": {"base"},
    "packet": {"packet", "base"},
    "net": {"net", "base"},
    "ipsec": {"ipsec", "net", "packet", "base"},
    "verbs": {"verbs", "base"},
    "roce": {"roce", "verbs", "net", "packet", "base"},
    "stack": {"stack", "roce", "ipsec", "net", "packet", "verbs", "base"},
    "client": {"client", "verbs", "base"},
    "sim": {"sim", "stack", "roce", "ipsec", "net", "packet", "verbs", "base"},
    "h4a": {"h4a", "verbs", "base"},
    "edge": {"edge", "h4a", "verbs", "base"},
    "test": {"test", "base"},
}
LIB = set(LAYERS)
# Top-level folders, which include lib/ by the folder's name and one another from the root.
TOP_LEVEL = {
    "drivers_glue": {"drivers_glue", "packet", "base"},
    "apps": LIB - {"sim", "test"} | {"apps", "drivers_glue"},
    "pcap_tests": LIB | {"pcap_tests", "apps"},
    "bindings": LIB - {"sim", "test"} | {"bindings"},
}
# What test code may include beyond its layer. Tests above roce may run on a real stack or in the simulator.
TESTS_MAY = {
    "sim": {"test"},
    "stack": {"test", "sim"},
    "h4a": {"test", "sim"} | LAYERS["sim"],
    "edge": {"test", "sim"} | LAYERS["sim"],
    "drivers_glue": {"test", "net"},
    "apps": {"test", "sim"},
}
# (pattern of the header, folders whose files may include it, most files that may, tests excepted)
THIRD_PARTY = [
    (r"rte_.*\.h", {"drivers_glue/dpdk"}, None, False),
    (r"intel-ipsec-mb\.h", {"lib/ipsec", "lib/net"}, 2, False),
    (r"boost/(beast|asio).*", {"lib/edge", "apps"}, None, True),
    (r"curl/.*", {"lib/edge"}, None, True),
    (r"CLI/.*", {"apps"}, None, False),
    (r"nlohmann/.*", {"lib/edge", "apps"}, None, True),
]
MAX_LINES = 600
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCE_DIRS = ("lib", "drivers_glue", "apps", "pcap_tests", "bindings")
TEXT_SUFFIXES = {".h", ".cc", ".c", ".py", ".sh", ".fbs", ".build", ".lua"}


def is_test(path):
    return re.search(r"_(test|fuzz|bench)(_\w+)?\.(cc|h)$", path.name) or path.parts[:2] == ("lib", "test")


def layer_of(path):
    return path.parts[1] if path.parts[0] == "lib" and len(path.parts) > 2 else path.parts[0]


def allowed(path):
    layer = layer_of(path)
    may = LAYERS.get(layer) or TOP_LEVEL.get(layer) or set()
    if is_test(path):
        may = may | {"test"} | TESTS_MAY.get(layer, set())
    return may


def check_own_include(path, name):
    """An include in quotes names a file from lib/ or from the root; one without a folder is beside the file."""
    folder = name.split("/")[0] if "/" in name else layer_of(path)
    if folder in allowed(path):
        return None
    return f"{layer_of(path)} may not include {name} (see scripts/check_layers.py)"


def check_third_party(path, name, users):
    for pattern, homes, _, tests_too in THIRD_PARTY:
        if not re.fullmatch(pattern, name):
            continue
        users.setdefault(pattern, set()).add(path)
        at_home = any(str(path).startswith(home + "/") for home in homes)
        if not at_home and not (tests_too and is_test(path)):
            return f"{name} belongs in {', '.join(sorted(homes))} alone"
    return None


def check_includes(path, lines, users):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        problem = check_third_party(path, name, users)
        if not problem and match.group(1) == '"' and not re.match(r"rte_|intel-ipsec-mb", name):
            problem = check_own_include(path, name)
        if problem:
            yield f"{path}:{number}: {problem}"


def check_text(path, lines):
    if len(lines) > MAX_LINES:
        yield f"{path}: {len(lines)} lines; split it by subject (at most {MAX_LINES})"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: finish it, or file it as an issue"


def check(root):
    users = {}
    problems = []
    for top in SOURCE_DIRS + ("scripts",):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in TEXT_SUFFIXES and file.name != "meson.build":
                continue
            path = file.relative_to(root)
            lines = file.read_text(encoding="utf-8").splitlines()
            problems += check_text(path, lines)
            if top in SOURCE_DIRS and path.suffix in {".h", ".cc"}:
                problems += check_includes(path, lines, users)
    for pattern, _, most, _ in THIRD_PARTY:
        files = sorted(str(p) for p in users.get(pattern, ()))
        if most is not None and len(files) > most:
            problems.append(f"{pattern} is included by {len(files)} files, at most {most}: {', '.join(files)}")
    return problems


# --- the check of the check -----------------------------------------------------------------------------------

BAD = [  # (path, text, words of the message)
    ("lib/net/a.h", '#include "packet/frame.h"\n', "net may not include packet/frame.h"),
    ("lib/ipsec/a.cc", '#include "roce/engine.h"\n', "ipsec may not include roce/engine.h"),
    ("lib/roce/a.h", '#  include "ipsec/sa.h"\n', "roce may not include ipsec/sa.h"),
    ("lib/roce/a_test.cc", '#include "ipsec/sa.h"\n', "roce may not include ipsec/sa.h"),
    ("lib/h4a/a.cc", '#include "stack/stack.h"\n', "h4a may not include stack/stack.h"),
    ("lib/base/a.h", '#include "test/test_support.h"\n', "base may not include test/test_support.h"),
    ("lib/stack/a.cc", '#include "drivers_glue/dpdk/port.h"\n', "stack may not include drivers_glue"),
    ("drivers_glue/dpdk/a.cc", '#include "roce/engine.h"\n', "drivers_glue may not include roce"),
    ("lib/packet/a.cc", "#include <rte_mbuf.h>\n", "rte_mbuf.h belongs in"),
    ("apps/a.cc", '#include "rte_eal.h"\n', "rte_eal.h belongs in"),
    ("lib/h4a/b.cc", "#include <boost/beast/http.hpp>\n", "boost/beast/http.hpp belongs in"),
    ("lib/base/long.cc", "int x;\n" * 601, "601 lines"),
    ("lib/base/later.cc", "// TO" + "DO\n", "finish it"),
]
GOOD = [
    ("lib/roce/b.cc", '#include "verbs/types.h"\n#include "net/bth.h"\n#include <vector>\n'),
    ("lib/roce/b_test.cc", '#include "test/test_support.h"\n'),
    ("lib/h4a/c_test.cc", '#include "sim/world.h"\n#include "stack/stack.h"\n'),
    ("lib/edge/c.cc", "#include <boost/beast/http.hpp>\n#include <curl/curl.h>\n"),
    ("drivers_glue/dpdk/b.cc", '#include <rte_mbuf.h>\n#include "packet/port.h"\n#include "drivers_glue/dpdk/b.h"\n'),
    ("apps/h4a/b.cc", '#include "stack/stack.h"\n#include "drivers_glue/ports.h"\n#include "apps/common.h"\n'),
]


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def self_test():
    failures = []
    for path, text, words in BAD:
        with tempfile.TemporaryDirectory() as folder:
            write(pathlib.Path(folder), path, text)
            found = check(pathlib.Path(folder))
            if len(found) != 1 or words not in found[0]:
                failures.append(f"{path}: expected one message with '{words}', found {found}")
    with tempfile.TemporaryDirectory() as folder:
        for path, text in GOOD:
            write(pathlib.Path(folder), path, text)
        failures += [f"wrongly reported: {p}" for p in check(pathlib.Path(folder))]
        for i in range(3):
            write(pathlib.Path(folder), f"lib/ipsec/mb{i}.cc", "#include <intel-ipsec-mb.h>\n")
        found = check(pathlib.Path(folder))
        if len(found) != 1 or "3 files" not in found[0]:
            failures.append(f"three users of intel-ipsec-mb.h: {found}")
    return failures


def main():
    if "--self-test" in sys.argv[1:]:
        problems = self_test()
    else:
        problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
