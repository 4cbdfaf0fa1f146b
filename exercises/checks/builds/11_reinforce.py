"""The judge of build 11: REINFORCE that makes a writer use a word and keep its language."""

import math

from bookkit.builds.limits import Budget
from bookkit.builds.recorded import Recorded
from bookkit.builds.verdict import Build
from bookkit.builds.writing import WritingStage
from bookkit.exercises.exercise import edit, edits

SETTINGS = {
    "updates": 100,
    "batch_size": 64,
    "learning_rate": 2e-3,
    "kl_coefficient": 0.1,
    "max_grad_norm": 1.0,
}
ALONE = {**SETTINGS, "updates": 30, "kl_coefficient": 0.0}
# Other words and writers, the same kind of task; TRL's runs have no penalty.
BESIDE = (
    Recorded(
        "the book",
        "studies/results/reinforce_text.json",
        ("arms", "keyword, KL 0.1"),
        "curves",
        every=64,
    ),
    Recorded(
        "TRL, without a penalty",
        "studies/results/reinforce_trl.json",
        ("runs", "trl"),
        y="rewards",
        every=64,
    ),
)
TWINS = (
    edit("wrong sign", "loss = -(weights", "loss = (weights", "has the wrong sign"),
    edit(
        "no penalty",
        "penalty = settings.kl_coefficient * distance",
        "penalty = 0.0 * distance",
        "the variety is gone",
    ),
    edit(
        "KL from the wrong side",
        "(logprobs - logprobs_of(base, ids, world))",
        "(logprobs_of(base, ids, world) - logprobs)",
        "pays for distance",
    ),
    edit(
        "logits of another token",
        "torch.cat([first, ids[:, :-1]], 1)",
        "ids",
        "logits score another token",
    ),
    edit(
        "the most likely token",
        "torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]",
        "logits.argmax(-1)",
        "all texts are the same",
    ),
    edits(
        "old texts",
        (
            "        ids, mask = sample(writer, world, settings.batch_size, generator)\n",
            "        ids, mask = sample(base, world, settings.batch_size, "
            "generator.manual_seed(seed))\n",
        ),
        message="had been scored before",
    ),
    edit(
        "the optimiser holds a copy",
        "torch.optim.Adam(writer.parameters()",
        "torch.optim.Adam(copy.deepcopy(writer).parameters()",
        "holds the parameters of a copy",
    ),
)

BUILD = Build(
    number=11,
    slug="reinforce",
    title="REINFORCE that keeps its language",
    part="writing",
    budget=Budget(processor_seconds=240.0),
    stages=(
        WritingStage("reward alone", ALONE, tokens=100_000, rate=0.4, nats=math.inf),
        WritingStage("keyword", SETTINGS, tokens=250_000, rate=0.9, nats=6.5, results=BESIDE),
    ),
    milestones=(
        "reinforce.mask.1",
        "reinforce.logprobs.1",
        "reinforce.returns.1",
        "reinforce.loss.1",
        "reinforce.baseline.1",
        "reinforce.kl.1",
    ),
    twins=TWINS,
    not_tested="other lengths, other writers, and rewards that can be farmed.",
)
