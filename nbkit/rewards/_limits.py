"""What a program in a sandbox may use."""

from dataclasses import dataclass

from nbkit.rewards import _view


@dataclass(frozen=True)
class Limits:
    """What one program may use. Times in seconds, sizes in bytes.

    ``processes`` counts threads too, and the supervisor. ``memory_bytes`` is the address space of
    each process and the resident memory of all together.
    """

    timeout_s: float
    memory_bytes: int
    max_output: int = 65536
    processes: int = 32
    file_bytes: int = _view.SCRATCH_BYTES
    files: int = 128

    def as_rlimits(self) -> list[tuple[str, int, int]]:
        """Return names of ``resource`` with soft and hard values."""
        cpu = max(1, int(self.timeout_s + 0.999))
        return [
            ("RLIMIT_CPU", cpu, cpu + 1),
            ("RLIMIT_AS", self.memory_bytes, self.memory_bytes),
            ("RLIMIT_FSIZE", self.file_bytes, self.file_bytes),
            ("RLIMIT_NOFILE", self.files, self.files),
            ("RLIMIT_CORE", 0, 0),
            ("RLIMIT_MEMLOCK", 0, 0),
            ("RLIMIT_MSGQUEUE", 0, 0),
            ("RLIMIT_SIGPENDING", 256, 256),
            ("RLIMIT_NPROC", self.processes, self.processes),
        ]
