"""Seven algorithms on sums of two to six numbers, each with the same budget of sampled tokens.

Protocol, fixed before the run: five seeds; every arm of a seed starts from the same taught model
and is asked the same problems in the same order, 32 prompts with 8 completions each (REINFORCE++:
256 prompts with one), until 600,000 tokens have been sampled; DAPO's discarded groups count. The
learning rate is 7e-4 for all, constant, fixed beforehand and tuned for none of them.

Without a KL term and with one gradient step a batch the algorithms differ in advantage and
aggregation only, because every ratio is 1: these are the arms called by their names. "... with its
KL" adds the term of the paper. "..., 4 steps" cuts each batch into four minibatches, so that ratios
move and the clips act. Judged on 500 held-out sums.
"""

from studies._frame import Frame
from studies._grpo import Arm, settings
from studies._grpo_head import HEAD_TOLERANCES, head_of
from studies._grpo_study import GRPOArms

NO_KL = {"kl_coefficient": 0.0}
GROUPLESS = {"prompts": 256, "group_size": 1}
ARMS: dict[str, Arm] = {
    "GRPO": Arm(settings("grpo")),
    "Dr. GRPO": Arm(settings("dr_grpo")),
    "RLOO": Arm(settings("rloo")),
    "REINFORCE++": Arm(settings("reinforce++", **GROUPLESS)),
    "DAPO": Arm(settings("dapo")),
    "GSPO": Arm(settings("gspo")),
    "CISPO": Arm(settings("cispo")),
    "GRPO with its KL": Arm(settings("grpo", kl_coefficient=0.04)),
    "RLOO with its KL": Arm(settings("rloo", kl_coefficient=0.03)),
    "REINFORCE++ with its KL": Arm(settings("reinforce++", kl_coefficient=0.01, **GROUPLESS)),
    "GRPO, 4 steps": Arm(settings("grpo", minibatches=4)),
    "DAPO, 4 steps": Arm(settings("dapo", minibatches=4)),
    "GSPO, 4 steps": Arm(settings("gspo", minibatches=4)),
    "CISPO, 4 steps": Arm(settings("cispo", minibatches=4)),
}


def head() -> dict[str, float]:
    """A few small updates of five arms."""
    names = ("GRPO", "Dr. GRPO", "REINFORCE++ with its KL", "DAPO, 4 steps", "CISPO, 4 steps")
    return head_of({name: ARMS[name] for name in names})


AGAINST = {name: "GRPO" if "steps" not in name else "GRPO, 4 steps" for name in ARMS}
STUDY = Frame(__file__, GRPOArms(ARMS, AGAINST).measure, head, HEAD_TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
