"""Settings and rewards of GRPO, one changed at a time: what helps, what hurts, what is gamed.

Protocol, fixed before the run: three seeds, the bases, budget and learning rate of
``grpo_variants``; each arm is compared with "base" (or with the arm named in its summary) on the
same seeds. The arms:

- group size at 256 completions a batch; temperature of the sampler (judged at 1);
- KL: k1 and k3, in the loss and in the reward, with the coefficient 0.1; "k1 in the loss" has the
  value without the gradient (whose mean is 0), "by ratio" has the gradient of the divergence;
- part marks on top of the right answer: for an answer that is near, for work, for brevity;
- the form rewarded from a hardly taught start, beside the right answer alone;
- a verifier that is wrong at random, and one that is wrong always in the same place.
"""

from functools import partial

from nbkit.trainers.scoring import RewardFunction
from studies._flawed_rewards import NoisyVerifier, PartMarks, careless
from studies._frame import Frame
from studies._grpo import Arm, Scale, recipe, settings
from studies._grpo_head import HEAD_TOLERANCES, head_of
from studies._grpo_study import GRPOArms

SEEDS = (1, 2, 3)
KL = 0.1
LIMIT = recipe("taught", Scale()).config.max_new_tokens


def noisy(seed: int, *, positives: float = 0.0, negatives: float = 0.0) -> RewardFunction:
    """A verifier that is wrong at random."""
    return NoisyVerifier(positives, negatives, seed)


def part_marks(seed: int, *, kind: str, weight: float, right: float = 1.0) -> RewardFunction:
    """Marks for something that is not the task."""
    return PartMarks(kind, weight, LIMIT, right)


def always_careless(seed: int) -> RewardFunction:
    """A verifier that does not see a forgotten carry."""
    return careless


def _kl(kind: str, place: str, by_ratio: bool = False) -> Arm:
    return Arm(settings(kl_coefficient=KL, kl_kind=kind, kl_place=place, kl_ratio=by_ratio))


ARMS: dict[str, Arm] = {
    "base": Arm(settings()),
    **{
        f"group of {size}": Arm(settings(group_size=size, prompts=256 // size))
        for size in (2, 4, 16, 32)
    },
    **{f"temperature {t}": Arm(settings(temperature=t)) for t in (0.5, 0.7, 1.3)},
    "KL: k3 in the loss": _kl("k3", "loss"),
    "KL: k3 in the loss by ratio": _kl("k3", "loss", True),
    "KL: k1 in the loss": _kl("k1", "loss"),
    "KL: k1 in the loss by ratio": _kl("k1", "loss", True),
    "KL: k3 in the reward": _kl("k3", "reward"),
    "KL: k1 in the reward": _kl("k1", "reward"),
    "marks for near answers": Arm(settings(), reward=partial(part_marks, kind="near", weight=1.0)),
    "marks for work": Arm(settings(), reward=partial(part_marks, kind="work", weight=1.0)),
    "marks for brevity": Arm(settings(), reward=partial(part_marks, kind="brevity", weight=1.0)),
    "few marks for brevity": Arm(
        settings(), reward=partial(part_marks, kind="brevity", weight=0.25)
    ),
    "early": Arm(settings(), base="early"),
    "early, form rewarded": Arm(
        settings(), base="early", reward=partial(part_marks, kind="form", weight=1.0)
    ),
    "early, brevity rewarded": Arm(
        settings(), base="early", reward=partial(part_marks, kind="brevity", weight=1.0)
    ),
    **{
        f"false positives {rate}": Arm(settings(), reward=partial(noisy, positives=rate))
        for rate in (0.1, 0.3, 0.5)
    },
    **{
        f"false negatives {rate}": Arm(settings(), reward=partial(noisy, negatives=rate))
        for rate in (0.1, 0.3, 0.5)
    },
    "false positives always for a forgotten carry": Arm(settings(), reward=always_careless),
}


def head() -> dict[str, float]:
    """A few small updates of some arms."""
    names = ("group of 4", "KL: k1 in the loss by ratio", "KL: k3 in the reward")
    names += ("false positives 0.3",)
    return head_of({name: ARMS[name] for name in names})


AGAINST = {name: "early" if name.startswith("early") else "base" for name in ARMS}
STUDY = Frame(__file__, GRPOArms(ARMS, AGAINST, seeds=SEEDS).measure, head, HEAD_TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
