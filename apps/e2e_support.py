"""What the end-to-end tests share: a temporary folder, the processes they start, and TAP on standard output."""
import os
import shutil
import signal
import socket
import sys
import tempfile

H4A = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="h4a-e2e-")
started = []  # every process that a test starts; those that still run at the end are killed


def path(name):
    return os.path.join(WORK, name)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_cases(cases, *arguments):
    """Calls each case and prints its result. Returns how many failed."""
    print("1..%d" % len(cases), flush=True)
    failed = 0
    for number, case in enumerate(cases, 1):
        try:
            case(*arguments)
            print("ok %d - %s" % (number, case.__name__), flush=True)
        except Exception as problem:  # the next case is worth running all the same
            failed += 1
            text = str(problem).replace("\n", "\n# ")
            print("not ok %d - %s\n# %s: %s" % (number, case.__name__, type(problem).__name__, text), flush=True)
    return failed


def run_main(main):
    """Ends the program with what main() returns, and with it all that it started."""
    try:
        sys.exit(main())
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        shutil.rmtree(WORK, ignore_errors=True)
