"""New weights between two decode steps: one completion, tokens of several versions.

The rows that are being written go on where they are. Each token is noted with the version that drew
it, and its log-probability is the one under which it was drawn, so the batch knows its behaviour
policy exactly. What stays behind is the KV cache: keys and values of earlier tokens, computed by
earlier weights. "keep" leaves them, as PipelineRL does (Piché et al., arXiv:2509.19128): a switch
then costs nothing but the copy of the weights. "recompute" reads prompt and completion again with
the new weights, as AReaL does (Fu et al., arXiv:2505.24298): as if the prefix had been a prompt.
"keep" is the default here, because the recorded log-probabilities are exact either way.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nbkit._inputs import check_choice
from nbkit.generate.options import EngineOptions, Sampling
from nbkit.generate.runner import Runner
from nbkit.generate.session import Session

CACHES = ("keep", "recompute")
Switch = Callable[[], int | None]


class InFlightRunner(Runner):
    """A runner that asks for new weights before each chunk of decode steps.

    Args:
        session: slots and their state.
        options: how to compute.
        cache: "keep" or "recompute", see the module.

    Attributes:
        switch: loads newer weights, where there are some, and returns their version; else None.
        version: of the weights that draw now.
        prompts: of each row, for "recompute".
        switches: how often weights changed in this call.

    """

    def __init__(self, session: Session, options: EngineOptions, cache: str = "keep") -> None:
        check_choice("cache", cache, CACHES)
        super().__init__(session, options)
        self.cache = cache
        self.switch: Switch | None = None
        self.prompts: Sequence[Sequence[int]] = ()
        self.version = self.switches = 0
        self._versions = torch.full_like(session.state["out_tokens"], -1)

    def start(self, sampling: Sampling) -> None:
        """Begin a call: empty slots, no token noted."""
        super().start(sampling)
        self._versions.fill_(-1)
        self.switches = 0

    def decode(
        self,
        batch_size: int,
        steps: int,
        horizon: int,
        sampling: Sampling,
        *,
        aligned: bool = False,
    ) -> None:
        """Take new weights, if there are some, then run the steps as a ``Runner`` does."""
        self._take_weights()
        super().decode(batch_size, steps, horizon, sampling, aligned=aligned)

    def versions(self, rows: int, width: int) -> Tensor:
        """(rows, width) version of each token that was drawn, -1 where there is none."""
        self._note()
        return self._versions[:rows, :width].clone()

    def _take_weights(self) -> None:
        if self.switch is None:
            return
        before = self.version
        drawn = self.session.state["out_tokens"] >= 0  # by the weights before
        version = self.switch()
        if version is None:
            return
        self._versions[drawn & (self._versions < 0)] = before
        self.version = version
        self.switches += 1
        if self.cache == "recompute":
            self._read_again()

    def _note(self) -> None:
        drawn = self.session.state["out_tokens"] >= 0
        self._versions[drawn & (self._versions < 0)] = self.version

    def _read_again(self) -> None:
        """Fill the cache of all rows that are being written with keys and values of these weights.

        The newest token of a row is not in the cache yet: the next step puts it there.
        """
        state = self.session.state
        done, rows, counts = (state[name].tolist() for name in ("done", "rows", "counts"))
        written = []
        for slot in (slot for slot, ended in enumerate(done) if not ended):
            text = state["out_tokens"][rows[slot], : counts[slot]].tolist()
            before = [*self.prompts[rows[slot]], *text][:-1]
            if before:
                written.append((before, [slot]))
        self.prefill(written)
