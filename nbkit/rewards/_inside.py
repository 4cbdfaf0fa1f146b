"""What runs inside a sandbox: a supervisor (process 1) and, forked from it, the program.

This file imports nothing of nbkit; its code reaches a bare interpreter over the pipe of orders.
Arguments: the descriptor of orders, the descriptor of reports, the user id to take (0: stay), and
"pid1" or "subreaper".

The supervisor reports that it is ready, waits for one job, forks the program and watches it. From
inside nobody can kill process 1; when it ends, the kernel ends everything else in the sandbox.
Orders come from outside by marshal and are trusted; what comes from the program never is.
"""

# pathlib and contextlib would double the time that a start takes:
# ruff: noqa: PTH115, PTH123, PTH208, SIM105
import _signal as signal  # the module "signal" loads "enum", which costs as much as the start
import marshal
import mmap
import os
import resource
import select
import sys
import time

STOPPED = {1: "memory", 2: "processes"}  # what the program notes when a limit stopped it
TICK_S = 0.05
MAX_FILES = 10_000


def main() -> None:
    orders, reports, uid, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first, second = sorted((orders, reports))
    for low, high in ((3, first), (first + 1, second), (second + 1, 4096)):
        os.closerange(low, high)  # whatever came along
    os.set_inheritable(orders, False)
    os.set_inheritable(reports, False)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    elif kind == "pid1":
        _prctl(4, 0)  # PR_SET_DUMPABLE: no /proc/1/mem; changing the user id does the same
    if kind == "subreaper":
        _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans come to us and can be ended
    _send(reports, _facts())
    job = _receive(orders)
    if job is None:
        return
    sys.argv = ["program"]
    sys.set_int_max_str_digits(0)  # programs print long integers; the time is limited anyway
    note = mmap.mmap(-1, 1)  # shared with the program; an exit code is its own to choose
    pid = os.fork()
    if pid == 0:
        os.close(orders)
        os.close(reports)
        _become_program(job, note)
        return  # and through the interpreter's own exit: atexit, threads, buffers
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    outcome = _watch(pid, orders, job["memory_bytes"], kind)
    if outcome["status"] and not outcome["stopped"]:
        outcome["stopped"] = STOPPED.get(note[0], "")
    _end_all(kind)
    _send(reports, outcome)


def _facts() -> dict[str, dict[str, str]]:
    """What the kernel says of this process: the layers are read, not believed."""
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    spaces = {}
    for name in ("user", "mnt", "pid", "net", "ipc", "uts"):
        spaces[name] = os.readlink("/proc/self/ns/" + name)
    keys = ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "Uid", "Groups")
    return {"status": {key: status.get(key, "") for key in keys}, "namespaces": spaces}


def _become_program(job: dict, note: mmap.mmap) -> None:
    os.setsid()
    own = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["scratch"])
    role, source = job["role"], job["source"]
    channel = None
    if role != "program":
        # The channel takes the place of input and output; what the program prints is noise.
        channel = (os.dup(0), os.dup(1))
        empty = os.open("/dev/null", os.O_RDONLY)
        os.dup2(empty, 0)
        os.dup2(2, 1)
        os.close(empty)
        calls: dict = {"__name__": "calls"}
        exec(marshal.loads(job["calls"]), calls)
    for name, soft, hard in job["limits"]:
        resource.setrlimit(getattr(resource, name), (soft, hard))
    job.clear()
    code = 1
    try:
        if channel is None:
            names = {"__name__": "__main__", "__builtins__": __builtins__, "__doc__": None}
            exec(compile(source, "<program>", "exec", dont_inherit=True), names)
            code = 0
        else:
            code = calls["serve" if role == "solution" else "test"](source, channel)
    except SystemExit:
        raise
    except MemoryError:
        if os.getpid() == own:
            note[0] = 1
        _say("MemoryError")
    except BaseException as error:
        frames = error.__traceback__  # shown without the frame of this file
        error = error.with_traceback(frames and frames.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        refused = isinstance(error, BlockingIOError) or "can't start new thread" in str(error)
        if refused and os.getpid() == own:
            note[0] = 2
    sys.exit(code)


def _say(text: str) -> None:
    os.write(2, text.encode() + b"\n")


def _watch(pid: int, orders: int, memory_bytes: int, kind: str) -> dict:
    """Wait for the program; count the memory of all processes; leave when the outside is gone."""
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    poller.register(orders, select.POLLIN)
    last = time.monotonic()
    while True:
        for descriptor, _ in poller.poll(TICK_S * 1000):
            if descriptor == orders:  # nothing more is ever sent: the other end has closed
                _end_all(kind)
                os._exit(1)
            _, status, usage = os.wait4(pid, 0)
            seconds = usage.ru_utime + usage.ru_stime
            return {"status": status, "cpu_seconds": seconds, "stopped": ""}
        if time.monotonic() - last > TICK_S:
            last = time.monotonic()
            _reap(pid)
            if _resident_bytes(kind) > memory_bytes or _files(kind) > MAX_FILES:
                os.kill(pid, signal.SIGKILL)
                _, status, usage = os.wait4(pid, 0)
                seconds = usage.ru_utime + usage.ru_stime
                return {"status": status, "cpu_seconds": seconds, "stopped": "memory"}


def _reap(pid: int) -> None:
    """Collect orphans that have ended, and not the program itself."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == pid:
            return
        os.waitpid(found.si_pid, 0)


def _resident_bytes(kind: str) -> int:
    total = 0
    page = resource.getpagesize()
    own = os.getpid()
    for entry in os.listdir("/proc") if kind == "pid1" else _children():
        if entry.isdigit() and int(entry) != own:
            try:
                with open("/proc/" + entry + "/statm", "rb") as file:
                    total += (int(file.read().split()[1])) * page
            except (OSError, IndexError):
                continue  # ended meanwhile
    return total


def _files(kind: str) -> int:
    """Files in the scratch folder; each costs the kernel memory that no size limits."""
    if kind != "pid1":
        return 0
    state = os.statvfs("/scratch")
    return state.f_files - state.f_ffree


def _children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


def _end_all(kind: str) -> None:
    """Kill and reap every other process of the sandbox."""
    while True:
        if kind == "pid1":
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            for child in _children():
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _send(descriptor: int, message: dict) -> None:
    data = marshal.dumps(message)
    os.write(descriptor, len(data).to_bytes(4, "big") + data)


def _receive(descriptor: int) -> dict | None:
    header = _exactly(descriptor, 4)
    body = header and _exactly(descriptor, int.from_bytes(header, "big"))
    return marshal.loads(body) if body else None


def _exactly(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(descriptor, count - len(data))
        if not more:
            return b""
        data += more
    return data


def _prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main()
