"""What a job.yaml may tell Slurm besides GPUs and time: words of ``#SBATCH`` lines, unquoted."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from nbkit.cluster.words import Part, Word

# Set by the scripts, from other fields of the file; the second of a pair is where it is given.
GIVEN_ELSEWHERE = {
    "account": "slurm.account", "array": "`nbkit job sweep`", "chdir": "the scripts",
    "constraint": "slurm.constraint", "cpus-per-task": "slurm.cpus_per_process",
    "error": "the scripts", "exclude": "slurm.exclude", "exclusive": "slurm.exclusive",
    "export": "environment", "export-file": "environment", "get-user-env": "environment",
    "gpus-per-node": "gpus", "gres": "slurm.gres", "input": "the scripts", "job-name": "the folder",
    "mail-type": "slurm.mail", "mail-user": "slurm.mail", "mem": "slurm.memory",
    "no-requeue": "limits.requeues", "nodes": "nodes", "ntasks-per-node": "the scripts",
    "ntasks": "the scripts", "open-mode": "the scripts", "output": "the scripts",
    "parsable": "the scripts", "partition": "slurm.partition", "qos": "slurm.qos",
    "requeue": "limits.requeues", "reservation": "slurm.reservation",
    "signal": "signal_seconds", "test-only": "the dry run", "time": "time", "wait": "the scripts",
    "wrap": "the scripts",
}  # fmt: skip
MailEvent = Literal[
    "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT",
    "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS",
]  # fmt: skip


def _free(name: str) -> str:
    """Refuse an option that the scripts set, and what sbatch would take for its abbreviation."""
    for other, place in GIVEN_ELSEWHERE.items():
        if other.startswith(name):
            raise ValueError(f"options may not set {name}: {other} is set by {place}")
    return name


NodeList = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,\[\]-]*$")]
Address = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*(@[A-Za-z0-9.-]+)?$")
]
OptionName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"), AfterValidator(_free)
]
OptionValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,:+&|/@=\[\]-]*$")]


class Mail(Part):
    """Whom Slurm writes to, and when."""

    to: Address
    on: tuple[MailEvent, ...] = Field(default=("END", "FAIL"), strict=False, min_length=1)


class Slurm(Part):
    """What the cluster wants to know besides GPUs and time.

    `options` are others of ``sbatch``, by their long names; true: an option without a value.
    """

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    reservation: Word | None = None
    gres: Word | None = None
    exclude: NodeList | None = None
    memory: Annotated[str, StringConstraints(pattern=r"^[0-9]+[KMGT]?$")] | None = None
    cpus_per_process: int = Field(default=8, ge=1, le=256)
    exclusive: bool = False
    mail: Mail | None = None
    options: dict[OptionName, OptionValue | Literal[True] | int] = Field(default={})

    @property
    def lines(self) -> list[str]:
        """The options of ``#SBATCH`` lines, as in "--qos=normal", that stand here as they are."""
        names = ("partition", "account", "qos", "constraint", "reservation", "gres", "exclude")
        given = {name: getattr(self, name) for name in names if getattr(self, name)}
        if self.mail is not None:
            given |= {"mail-user": self.mail.to, "mail-type": ",".join(self.mail.on)}
        given |= {"exclusive": True} if self.exclusive else {}
        return [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in (given | self.options).items()
        ]
