"""How far a policy drifts after its reward is won: chapter 11's follow-up on two surprises.

The first study left two questions. Without a baseline, is the language lost in the long run? And
was it the Transformer, or its learning rate, that dissolved the words? Both were asked, and these
seeds and arms fixed, before this run.
"""

from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from nbkit.envs.reviews import ALPHABET
from nbkit.rewards.text import contains_keyword
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.reinforce import ReinforceConfig
from studies._arms import Arms, Run, seed_by_seed
from studies._frame import Frame
from studies._review_arms import Arm, pretrained, run_arm

SEEDS = (51, 52, 53)
KEYWORD = "great"
BODIES: dict[str, dict[str, Any]] = {
    "lstm": {"sizes": {"width": 96}, "steps": 300, "learning_rate": 2e-2},
    "transformer": {"sizes": {"width": 96, "layers": 2}, "steps": 300, "learning_rate": 5e-3},
}
BASE = ReinforceConfig(updates=60, batch_size=64, learning_rate=2e-3)
REWARD = contains_keyword(KEYWORD)
ARMS = {
    "leave-one-out": Arm("lstm", REWARD, {"updates": 200}),
    "no baseline": Arm("lstm", REWARD, {"updates": 200, "baseline": "none"}),
    "Transformer, 2e-3": Arm("transformer", REWARD),
    "Transformer, 5e-4": Arm("transformer", REWARD, {"learning_rate": 5e-4}),
    "Transformer, 2e-4": Arm("transformer", REWARD, {"learning_rate": 2e-4}),
}
CURVES = ("return", "perplexity", "kl")


def head() -> dict[str, float]:
    """Three updates without a baseline and three of the Transformer, from hardly taught bases.

    Such a base never writes the keyword, so that a letter is paid here.
    """
    vocabulary = CharVocabulary(ALPHABET)
    found: dict[str, float] = {}
    for name in ("no baseline", "Transformer, 5e-4"):
        changes = {**ARMS[name].changes, "updates": 3}
        arm = replace(ARMS[name], reward=contains_keyword("e"), changes=changes)
        policy = pretrained(arm.body, vocabulary, seed=SEEDS[0], **BODIES[arm.body] | {"steps": 10})
        config = replace(BASE, seed=SEEDS[0])
        curves = (*CURVES, "entropy", "gradient_norm")
        run = run_arm(arm, policy, vocabulary, config, keyword=KEYWORD, curves=curves)
        found |= {
            f"{name}: {key} {i}": value
            for key, values in run["curves"].items()
            for i, value in enumerate(values, start=1)
        }
        for when in ("before", "after"):
            found[f"{name}: perplexity {when}"] = run[when]["perplexity"]
    return found


VOCABULARY = CharVocabulary(ALPHABET)


@lru_cache(len(BODIES))
def base_policy(body: str, seed: int) -> Any:
    """The start of a seed's arms with one body; none of them moves it."""
    return pretrained(body, VOCABULARY, seed=seed, **BODIES[body])


def one_run(name: str, seed: int) -> Run:
    """One arm of one seed."""
    arm, config = ARMS[name], replace(BASE, seed=seed)
    base = base_policy(arm.body, seed)
    return run_arm(arm, base, VOCABULARY, config, keyword=KEYWORD, curves=CURVES)


TOLERANCES = {
    **dict.fromkeys(("perplexity", "perplexity before", "perplexity after"), 5e-3),
    **{"return": 5e-3, "kl": 2e-3, "entropy": 1e-3, "gradient_norm": 2e-3},
}
STUDY = Frame(
    __file__,
    Arms(one_run, seed_by_seed(ARMS, SEEDS), {"base": asdict(BASE), "bodies": BODIES}).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
