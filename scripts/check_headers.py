#!/usr/bin/env python3
"""Every header compiles alone (suite style): one compiler run for each, on a file that only includes it. For a
header whose x.cc includes it before anything else, the build itself is the proof, and no run is needed.

Flags are those of a source in the same folder, from the build directory's compile_commands.json. A header that
passed is not compiled again until it or anything it includes changes: the stamp keeps size and mtime of each.

usage: check_headers.py ROOT BUILD_DIR
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

SOURCE_DIRS = ("lib", "drivers_glue", "apps", "pcap_tests", "bindings")


def headers(root):
    return sorted(h for top in SOURCE_DIRS for h in (root / top).rglob("*.h"))


def read_commands(build):
    """→ [(source, [compiler and flags])], without input, output and dependency options."""
    commands = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = [w for w in shlex.split(entry["command"]) if os.path.basename(w) != "ccache"]
        flags, skip = [], False
        for word in words:
            if skip or word in ("-o", "-MF", "-MQ", "-MT"):
                skip = not skip
            elif word not in ("-c", "-MD", "-MMD", entry["file"]):
                flags.append(word)
        source = pathlib.Path(os.path.normpath(os.path.join(entry["directory"], entry["file"])))
        if source.suffix == ".cc":
            commands.append((source, flags))
    return commands


def proved_by_build(header, sources):
    source = header.with_suffix(".cc")
    if source not in sources:
        return False
    first = re.search(r'^\s*#\s*include\s*[<"]([^">]+)[">]', source.read_text(encoding="utf-8"), re.MULTILINE)
    return first is not None and str(header).endswith("/" + first.group(1))


def flags_for(header, commands):
    """Those of x.cc for x.h, else of any source in its folder, else of the nearest folder above."""

    def distance(command):
        source = command[0]
        common = len(os.path.commonpath([source.parent, header.parent]))
        return (source.with_suffix("") != header.with_suffix(""), -common)

    return min(commands, key=distance)[1]


def fingerprint(files):
    parts = []
    for file in files:
        try:
            stat = os.stat(file)
        except OSError:
            return None
        parts.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(parts)


def dependencies(depfile):
    text = depfile.read_text().replace("\\\n", " ")
    return [w for w in text.split(":", 1)[1].split() if w != "-"]


def check(header, flags, build, cache):
    """→ compiler output if the header does not compile alone, else None."""
    key = hashlib.sha256("\0".join([str(header), *flags]).encode()).hexdigest()[:24]
    stamp, depfile = cache / f"{key}.ok", cache / f"{key}.d"
    if stamp.exists() and depfile.exists() and stamp.read_text() == fingerprint(dependencies_of(depfile, build)):
        return None
    run = subprocess.run([*flags, "-fsyntax-only", "-MD", "-MF", str(depfile), "-MT", "x", "-x", "c++", "-"],
                         input=f'#include "{header}"\n', cwd=build, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return run.stderr or f"compiler exit code {run.returncode}"
    stamp.write_text(fingerprint(dependencies_of(depfile, build)) or "")
    return None


def dependencies_of(depfile, build):
    return [os.path.normpath(os.path.join(build, d)) for d in dependencies(depfile)]


def main():
    root, build = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    cache = build / "check_headers"
    cache.mkdir(exist_ok=True)
    commands = read_commands(build)
    all_headers = headers(root)
    if not all_headers or not commands:
        sys.exit(f"no headers below {root} or no commands in {build}")
    sources = {source for source, _ in commands}
    alone = [h for h in all_headers if not proved_by_build(h, sources)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        results = pool.map(lambda h: check(h, flags_for(h, commands), build, cache), alone)
        for header, problem in zip(alone, results):
            if problem:
                failed += 1
                print(f"{header.relative_to(root)} does not compile alone:\n{problem}")
    print(f"{len(all_headers)} headers, {len(alone)} of them compiled alone, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
