"""The system calls that a program in a sandbox may not make, as a filter for the kernel.

The list names what a program that computes never needs: tracing, mounting, new namespaces, kernel
modules, sockets, keys, performance counters, asynchronous input rings, memory without an owner.
It stands on top of the namespaces: a fault in one of these calls is a way out of them.
"""

import errno
import tempfile
from functools import cache

DENIED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # file systems and namespaces
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "quotactl", "acct"),
    *("open_by_handle_at", "name_to_handle_at", "fanotify_init", "mknod", "mknodat"),
    # the network
    *("socket", "connect", "bind", "listen", "accept", "accept4"),
    # memory that no limit counts
    *("memfd_create", "memfd_secret", "shmget", "shmat", "semget", "msgget", "mq_open"),
    # the kernel itself
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "io_setup", "add_key", "request_key", "keyctl", "kexec_load"),
    *("kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon"),
    *("swapoff", "syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime"),
    *("sethostname", "setdomainname", "iopl", "ioperm", "vhangup", "lookup_dcookie"),
    *("personality", "modify_ldt", "move_pages", "migrate_pages", "mbind", "set_mempolicy"),
    # priorities and affinities
    *("sched_setscheduler", "sched_setattr", "sched_setparam", "sched_setaffinity", "ioprio_set"),
)
_NEW_NAMESPACES: tuple[int, ...] = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
)
_NEW_NAMESPACES += (0x40000000, 0x00000080)
_TERMINAL_REQUESTS = (0x5412, 0x541C)  # TIOCSTI types into a terminal; TIOCLINUX pastes


class MissingError(RuntimeError):
    """There is no libseccomp or no binding to it."""


@cache
def program() -> bytes:
    """Return the filter in the kernel's own form (classic BPF).

    Denied calls fail with EPERM; clone3, whose flags a filter cannot read, with ENOSYS, so that
    the C library falls back on clone. Calls of another architecture end the process.

    Raises:
        MissingError: libseccomp or pyseccomp is not installed.

    """
    try:
        import pyseccomp as seccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingError(f"seccomp: {error}") from error
    filters = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    for name in DENIED:
        _add(filters, refuse, name)
    _add(filters, seccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in _NEW_NAMESPACES:
        filters.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    for request in _TERMINAL_REQUESTS:
        filters.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    # socketpair: between the program's own processes only (AF_UNIX is 1)
    filters.add_rule(refuse, "socketpair", seccomp.Arg(0, seccomp.NE, 1))
    with tempfile.TemporaryFile() as file:
        filters.export_bpf(file)
        file.seek(0)
        return file.read()


def _add(filters: object, action: int, name: str) -> None:
    """Add a rule; a call that this libseccomp or architecture does not know cannot be filtered."""
    try:
        filters.add_rule(action, name)  # type: ignore[attr-defined]
    except (ValueError, OSError):
        if name in ("ptrace", "mount", "unshare", "setns", "socket", "clone3", "bpf"):
            raise
