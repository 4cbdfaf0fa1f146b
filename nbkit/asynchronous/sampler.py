"""The sampler of one process: the synchronous trainer's own call, with versions beside the tokens.

It can sleep: session, KV cache and the engine's copies of weights are then gone, and the next call
builds them again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbkit._inputs import check_choice
from nbkit.asynchronous.in_flight import CACHES, InFlightRunner, Switch
from nbkit.generate import Generation, clear
from nbkit.generate.engine import Engine, engine_for
from nbkit.generate.runner import Runner
from nbkit.generate.weights import unwrap
from nbkit.text.protocols import EncodedProblem, LanguageModel, Problem, Vocabulary, prompt_ids
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.sampling import sample


class Sampler:
    """Answers problems with a model that it does not change.

    Args:
        model: as for ``nbkit.generate``.
        vocabulary: of prompts and completions.
        config: group size, limit, temperature, precision of the sampler.
        cache: what a change of weights on the way does to the KV cache, see ``in_flight``.

    Attributes:
        switches: changes of weights in the last call.

    """

    def __init__(
        self,
        model: LanguageModel | nn.Module,
        vocabulary: Vocabulary,
        config: GRPOConfig,
        *,
        cache: str = "keep",
    ) -> None:
        check_choice("cache", cache, CACHES)
        self.model: Any = unwrap(model)
        self.vocabulary, self.cache = vocabulary, cache
        self.config = replace(config, release_engine=False)
        self._dtype = torch.bfloat16 if config.sampler_dtype else None
        self._engine: Engine | None = None
        self._runner: InFlightRunner | None = None
        self._prompts: list[list[int]] = []
        self._version = self.switches = 0
        self._switch: Switch | None = None
        self._addresses: list[int] = []

    def sample(
        self,
        problems: Sequence[Problem | EncodedProblem],
        seeds: Tensor,
        version: int,
        switch: Switch | None = None,
    ) -> tuple[Generation, Tensor]:
        """Answer each problem ``group_size`` times; the weights are read from the model now.

        Args:
            problems: P of them.
            seeds: (R,) one a completion; R is P times the size of a group.
            version: of the weights that the model holds.
            switch: asked before each chunk of decode steps, see ``InFlightRunner``; it calls
                ``reload`` when it has changed the model. None: the weights stay.

        Returns:
            the completions, and (R, T) the version that drew each token, -1 where there is none.

        """
        self.wake()
        size = self.config.group_size
        asked = [prompt_ids(problem, self.vocabulary) for problem in problems]
        self._prompts = [ids for ids in asked for _ in range(size)]
        self._version, self._switch = version, switch
        self._forget_old_addresses()
        made = sample(self.model, self.vocabulary, problems, self.config, seeds)
        runner = self._runner
        if runner is None:
            raise RuntimeError("the engine did not ask for a session: it has changed")
        self.switches = runner.switches
        return made, runner.versions(*made.tokens.shape)

    def reload(self) -> None:
        """Read the model's weights again, in the middle of a call."""
        if self._engine is not None:
            self._engine.refresh(self.model)

    def wake(self) -> None:
        """Have an engine; ``sample`` does it by itself."""
        engine = engine_for(self.model, self._dtype, "auto", None)
        if engine is self._engine:
            return
        self._engine, plain = engine, engine.runner

        def in_flight(*sizes: int) -> Runner:
            return self._flying(plain(*sizes))

        vars(engine)["runner"] = in_flight  # the engine asks itself for a session: this one answers

    def sleep(self) -> None:
        """Give back all memory of the engine; the model stays as it is."""
        if self._engine is not None:
            vars(self._engine).pop("runner", None)  # else it would hold itself, and its cache
        self._engine = self._runner = None
        clear(self.model)

    @property
    def bytes(self) -> dict[str, int]:
        """What the sampler holds beside the model: "cache", "state" and "weights" (copies)."""
        if self._engine is None or self._runner is None:
            return {"cache": 0, "state": 0, "weights": 0}
        session = self._runner.session
        own = {tensor.data_ptr() for tensor in self.model.parameters()}
        read = {tensor.data_ptr(): tensor for tensor in self._engine.decoder.weights.tensors()}
        copies = [tensor for address, tensor in read.items() if address not in own]
        return {
            "cache": _bytes([session.cache.keys, session.cache.values]),
            "state": _bytes(list(session.state.values())),
            "weights": _bytes(copies),
        }

    def _forget_old_addresses(self) -> None:
        """CUDA graphs remember where weights lay; the engine tells its own runners alone."""
        if self._engine is None or self._engine.decoder.device.type != "cuda":
            return
        now = [tensor.data_ptr() for tensor in self._engine.decoder.weights.tensors()]
        if self._runner is not None and now != self._addresses:
            self._runner.forget_graphs()
        self._addresses = now

    def _flying(self, plain: Runner) -> InFlightRunner:
        """The runner of a session, with the call's prompts, version and switch."""
        if self._runner is None or self._runner.session is not plain.session:
            self._runner = InFlightRunner(plain.session, plain.options, self.cache)
        self._runner.prompts, self._runner.version = self._prompts, self._version
        self._runner.switch = self._switch
        return self._runner


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
