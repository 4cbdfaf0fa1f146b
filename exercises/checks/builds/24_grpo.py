"""The judge of build 24: GRPO that makes a pupil remember the carry."""

from bookkit.builds.grading import GradingStage
from bookkit.builds.limits import Budget
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

SETTINGS = {
    "updates": 120,
    "prompts": 32,
    "group_size": 8,
    "epochs": 2,
    "learning_rate": 2e-3,
    "clip": 0.2,
    "max_grad_norm": 1.0,
}
OFFSETS = {**SETTINGS, "updates": 50}
ONE_BATCH = {**SETTINGS, "updates": 1, "epochs": 60, "clip": 0.1, "learning_rate": 1e-3}
DRAWN = "torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]"
NUMBERS = "numbers = numbers.repeat_interleave(settings.group_size)"
PROMPTS = "prompts = prompts.repeat_interleave(settings.group_size, 0)"
PROBLEMS = "world.problems(settings.prompts)"
NEAR = 0.9  # nats; the solution stays within half of it, one without a clip goes twice as far
CENTRED = "(centred / (groups.std(1, keepdim=True) + 1e-4)).flatten()"
GROUPS = "compare an answer with the other answers to the same problem"
HELD = "does not hold the pupil back"
TWINS = (
    edit("wrong sign", "loss = -(gain", "loss = (gain", "has the wrong sign"),
    edit(
        "logits of another token",
        "[:, prompts.shape[1] - 1 :]",
        "[:, prompts.shape[1] - 2 : -1]",
        "logits score another token",
    ),
    edit(
        "the most likely token", DRAWN, "logits.argmax(-1)", "all answers to a problem are the same"
    ),
    edit(
        "the optimiser holds a copy",
        "torch.optim.Adam(pupil.parameters()",
        "torch.optim.Adam([p.detach().clone().requires_grad_() for p in pupil.parameters()]",
        "holds the parameters of a copy",
    ),
    edits(
        "old answers",
        (f"        numbers, prompts = {PROBLEMS}\n", "        numbers, prompts = first\n"),
        (
            "        ids, mask = sample(pupil, prompts, world, generator)\n",
            "        ids, mask = kept = kept or sample(pupil, prompts, world, generator)\n",
        ),
        (
            "    size = settings.prompts * settings.group_size\n",
            f"    size = settings.prompts * settings.group_size\n    first, kept = {PROBLEMS}, "
            "None\n",
        ),
        message="had been scored before",
    ),
    edits(
        "one answer a problem",
        (PROBLEMS, "world.problems(size)"),
        (NUMBERS, "numbers = numbers.clone()"),
        (PROMPTS, "prompts = prompts.clone()"),
        message="a group is several answers to one problem",
    ),
    edits(
        "groups of other problems",
        (NUMBERS, "numbers = numbers.repeat(settings.group_size)"),
        (PROMPTS, "prompts = prompts.repeat(settings.group_size, 1)"),
        message=GROUPS,
    ),
    edit("the batch as baseline", CENTRED, "(groups - groups.mean()).flatten()", GROUPS),
    edit(
        "stale log-probabilities",
        "ratio = (new - old).exp()",
        "ratio = (new - new.detach()).exp()",
        HELD,
    ),
    edit(
        "no clip",
        "clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)",
        "clipped = ratio",
        HELD,
    ),
)

BUILD = Build(
    number=24,
    slug="grpo",
    title="GRPO on sums",
    part="writing",
    budget=Budget(processor_seconds=240.0),
    stages=(
        GradingStage(
            "sums",
            SETTINGS,
            tokens=150_000,
            accuracy=0.68,
            gain=0.1,
            low=(
                "The pupil is hardly better: look at which logits score which token, at the end of "
                "the "
                "answers in the mask, and at the size of the steps."
            ),
        ),
        GradingStage(
            "offsets",
            OFFSETS,
            tokens=80_000,
            gain=0.05,
            offset=20.0,
            low=(
                "Here rewards differ from problem to problem for no merit of the answers, and the "
                "pupil "
                f"did not become better: {GROUPS}, and with no others."
            ),
        ),
        GradingStage(
            "one batch",
            ONE_BATCH,
            tokens=2_000,
            nats=NEAR,
            far=(
                f"After one batch and {ONE_BATCH['epochs']} epochs the pupil is too far from "
                "the one that answered. With a clip of "
                f"{ONE_BATCH['clip']:g} it stays within {NEAR:g} nats: the ratio {HELD}. It is "
                "not clipped, or the old log-probabilities are computed anew; they "
                "are those of the sampling, stored once."
            ),
        ),
    ),
    milestones=("rlvr.group.1", "rlvr.ratio.1", "rlvr.clip.1", "rlvr.aggregate.1"),
    twins=TWINS,
    not_tested="long answers, and rewards that can be had without being right.",
)
