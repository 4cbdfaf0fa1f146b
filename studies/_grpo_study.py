"""How a study of GRPO is measured: its bases, then its arms, beside each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bookkit.authoring.study import start_study
from studies._arms import what_runs
from studies._grpo import SEEDS, Arm, Method, protocol, run_arms
from studies._intervals import summary


@dataclass(frozen=True)
class GRPOArms:
    """Arms from taught bases.

    Attributes:
        arms: by name.
        against: the arm that each is compared with.
        seeds: of the runs.
        methods: ways to train besides GRPO.
        pass_at_k: whether pass@k is judged too.

    """

    arms: Mapping[str, Arm]
    against: Mapping[str, str]
    seeds: Sequence[int] = SEEDS
    methods: Mapping[str, Method] = field(default_factory=dict)
    pass_at_k: bool = False

    def measure(
        self,
        out: Path,
        device: str = "cpu",
        jobs: int = 1,
        minutes: float = math.inf,
        keep: Path | None = None,
    ) -> None:
        """Run the study and write its stamped result.

        Args:
            out: the result file.
            device: of the training runs.
            jobs: runs at a time, each in a process of its own.
            minutes: no run begins later; seeds that then lack an arm are left out.
            keep: a folder for the result of each run; what is there is not run again.

        """
        study = start_study(out, seeds=self.seeds, config=protocol(self.arms))
        bases, runs = run_arms(
            self.arms,
            seeds=self.seeds,
            jobs=jobs,
            device=device,
            minutes=minutes,
            keep=keep,
            of=what_runs(study.provenance),
            methods=self.methods,
            pass_at_k_of=tuple(self.arms) if self.pass_at_k else (),
        )
        study.finish({"bases": bases, "summary": summary(runs, self.against), "arms": runs})
