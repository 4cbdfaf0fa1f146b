"""What bubblewrap does, by plain system calls, where it is not installed: the outer process.

Run by a bare interpreter: makes new namespaces, builds a file system of read-only binds and a
scratch folder, changes into it for good, loads the filter of system calls, and becomes process 1's
parent. Imports nothing of nbkit. Arguments: a marshalled plan in hexadecimal, then the command.
"""

# ruff: noqa: PTH102, PTH103, PTH110, PTH123, PTH211
import ctypes
import marshal
import os
import sys

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _NOATIME, _NODIRATIME = 1, 2, 4, 8, 32, 1024, 2048
_BIND, _REC, _PRIVATE, _RELATIME, _ST_RELATIME = 1 << 12, 1 << 14, 1 << 18, 1 << 21, 1 << 12
_NEWNS, _NEWUTS, _NEWIPC = 1 << 17, 1 << 26, 1 << 27
_NEWUSER, _NEWPID, _NEWNET = 1 << 28, 1 << 29, 1 << 30
_PDEATHSIG, _SET_SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 22, 24, 38
_SETGID, _SETUID, _LAST_CAPABILITY = 6, 7, 63
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    plan, command = marshal.loads(bytes.fromhex(sys.argv[1])), sys.argv[2:]
    root = os.geteuid() == 0
    uid, gid = os.getuid(), os.getgid()
    spaces = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    _check(_libc.unshare(spaces | (0 if root else _NEWUSER)), "unshare")
    if not root:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _call("prctl", _PDEATHSIG, 9, 0, 0, 0)
    child = os.fork()
    if child:
        os.write(plan["info"], b'{"child-pid": %d}' % child)
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, 1024)
        _, status = os.waitpid(child, 0)
        os._exit(min(255, abs(os.waitstatus_to_exitcode(status))))
    _call("prctl", _PDEATHSIG, 9, 0, 0, 0)
    os.close(plan["info"])
    os.setsid()
    _build(plan)
    _check(_libc.sethostname(b"sandbox", 7), "sethostname")
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in (_SETGID, _SETUID):
            _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those it does not know
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    rules = plan["seccomp"]
    program = _Program(len(rules) // 8, rules)
    _check(_libc.prctl(_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")
    # The user id is not 0 in a new user namespace: exec takes all capabilities.
    os.execve(command[0], command, plan["environment"])


def _build(plan: dict) -> None:
    base = plan["base"]
    _mount("none", "/", None, _REC | _PRIVATE, "")
    _mount("tmpfs", base, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for folder in plan["shown"]:
        os.makedirs(base + folder, mode=0o755, exist_ok=True)
        _bind(folder, base + folder, _RDONLY | _NODEV)
    for folder in plan["hidden"]:
        _mount("tmpfs", base + folder, "tmpfs", _RDONLY | _NOSUID | _NODEV, "size=4k,mode=755")
    for target, name in plan["links"]:
        os.symlink(target, base + name)
    os.mkdir(base + "/dev", 0o755)
    for device in plan["devices"]:
        with open(f"{base}/dev/{device}", "w"):
            pass
        _bind(f"/dev/{device}", f"{base}/dev/{device}", 0)
    os.symlink("/proc/self/fd", base + "/dev/fd")
    os.mkdir(base + "/proc", 0o755)
    _mount("proc", base + "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "")
    scratch = plan["scratch"]
    os.mkdir(base + scratch, 0o755)
    options = f"mode=1777,size={plan['scratch_bytes']},nr_inodes=4096"
    _mount("tmpfs", base + scratch, "tmpfs", _NOSUID | _NODEV, options)
    if not os.path.exists(base + "/tmp"):  # an interpreter may stand there
        os.symlink(scratch.lstrip("/"), base + "/tmp")
    os.chdir(base)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", 2), "umount")  # the old root lies on top; detach it
    _mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV, "")
    os.chdir(scratch)


def _bind(source: str, target: str, flags: int) -> None:
    _mount(source, target, None, _BIND, "")
    # What the original mount forbids stays forbidden: a user namespace may not lift it.
    state = os.statvfs(target).f_flag
    flags |= _NOSUID | state & (_RDONLY | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME)
    if state & _ST_RELATIME:
        flags |= _RELATIME
    _mount("none", target, None, _REMOUNT | _BIND | flags, "")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str) -> None:
    name = kind.encode() if kind else None
    done = _libc.mount(
        source.encode(), target.encode(), name, ctypes.c_ulong(flags), options.encode()
    )
    _check(done, f"mount {target}")


def _call(name: str, *args: int) -> None:
    _check(getattr(_libc, name)(*args), name)


def _check(result: int, name: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
