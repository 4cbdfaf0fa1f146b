"""The four models of RLHF on one GPU, phase by phase."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nbkit.memory.peaks import Memory, generation_peak, inference_peak, training_peak
from nbkit.memory.setup import Training, static_memory
from nbkit.memory.shape import ModelShape

GB = 1e9


@dataclass(frozen=True)
class FourModels:
    """Bytes of a set-up.

    Attributes:
        resting: model to what of it stays between the phases.
        phases: phase to all that lies there at its worst moment.

    """

    resting: Mapping[str, float]
    phases: Mapping[str, Memory]

    @property
    def peak(self) -> float:
        """The worst moment of all, bytes."""
        return max(phase.total for phase in self.phases.values())

    @property
    def worst(self) -> str:
        """The phase of the worst moment."""
        return max(self.phases, key=lambda name: self.phases[name].total)

    def fits(self, card_bytes: float = 80 * GB, *, reserve: float = 0.08) -> bool:
        """Whether the peak leaves `reserve` of a card free, for the context and for fragments."""
        return self.peak <= card_bytes * (1 - reserve)


def four_models(
    policy: ModelShape,
    training: Training,
    *,
    rows: int,
    prompt: int,
    new_tokens: int,
    micro_rows: int,
    value: ModelShape | None = None,
    reward: ModelShape | None = None,
    reference: str = "copy",
    shared_trunk: bool = False,
) -> FourModels:
    """Memory of ``nbkit.trainers.rlhf`` with the engine released after sampling.

    Args:
        policy: shape of policy and reference.
        training: of policy and value model.
        rows: completions of a batch, sampled at once.
        prompt: tokens of a prompt.
        new_tokens: most tokens of a completion.
        micro_rows: rows of a forward pass of the trainer.
        value: shape of the value model; None: the policy's.
        reward: shape of the reward model; None: the policy's.
        reference: "copy", or "adapter" (LoRA: the policy without its adapters, no bytes at all).
        shared_trunk: the value head sits on the policy, and there is no value model.

    Returns:
        what rests, and the phases "generation", "scoring", "policy update", "value update".

    Raises:
        ValueError: an unknown `reference`, or "adapter" without LoRA.

    """
    if reference not in ("copy", "adapter"):
        raise ValueError(f"reference must be 'copy' or 'adapter'; got {reference!r}")
    if reference == "adapter" and training.method != "lora":
        raise ValueError("reference='adapter' needs method='lora': else the weights move")
    value = policy if value is None else value
    reward = policy if reward is None else reward
    size, length = training.precision.weights, prompt + new_tokens
    # Inference models are sharded with the rest where weights are.
    spread = training.shards if training.stage == 3 else 1
    own, own_gradients = _rest(policy, training, policy.parameters)
    critic, _ = _rest(value, training, value.scalar_parameters)
    resting = {
        "policy": own,
        "reference": policy.parameters * size / spread if reference == "copy" else 0.0,
        "reward model": reward.scalar_parameters * size / spread,
        "value model": 0.0 if shared_trunk else critic,
    }

    def beside(phase: Memory, without: str | None = None, **more: float) -> Memory:
        others = {f"{k} at rest": v for k, v in resting.items() if k != without and v}
        return Memory({**others, **{k: v for k, v in phase.parts.items() if v}, **more})

    if micro_rows < rows:
        training = replace(training, accumulated=True)
    phases = {
        "generation": beside(
            generation_peak(
                policy, rows=rows, prompt=prompt, new_tokens=new_tokens, size=size, weights=False
            )
        ),
        "scoring": beside(
            inference_peak(
                policy,
                rows=micro_rows,
                length=length,
                scored=new_tokens + 1,
                size=size,
                weights=False,
            )
        ),
        "policy update": beside(
            training_peak(policy, training, rows=micro_rows, length=length, scored=new_tokens + 1),
            without="policy",
        ),
    }
    if not shared_trunk:
        phases["value update"] = beside(
            training_peak(value, training, rows=micro_rows, length=length, scalar=True),
            without="value model",
            policy_gradients=own_gradients,
        )
    return FourModels(resting, phases)


def _rest(shape: ModelShape, training: Training, total: int) -> tuple[float, float]:
    """What stays of a trained model between two steps, and its gradients, which do not."""
    static = static_memory(shape, training, total=total)
    gradients = static.pop("gradients")
    static.pop("gathered")
    return sum(static.values()), gradients
