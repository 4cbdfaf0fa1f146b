"""A world for learning from preferences: questions, answers, and a hidden judge of both.

A question asks for help ("how do i bake bread briefly ?"), an answer gives steps ("gladly , mix the
flour , then heat the oven ."). The judge, ``gold``, is a program, so what a learned reward is worth
can be measured. No real data set allows that.
"""

from nbkit.envs.helpful.demonstrations import Demonstration, demonstrations, encode_demonstrations
from nbkit.envs.helpful.gold import gold, gold_parts, gold_reward
from nbkit.envs.helpful.language import (
    HelpfulVocabulary,
    Question,
    all_questions,
    draw_questions,
)
from nbkit.envs.helpful.pairs import (
    Pair,
    encode_pairs,
    grammar_sampler,
    policy_sampler,
    preference_pairs,
    preference_probability,
)

__all__ = [
    "Demonstration",
    "HelpfulVocabulary",
    "Pair",
    "Question",
    "all_questions",
    "demonstrations",
    "draw_questions",
    "encode_demonstrations",
    "encode_pairs",
    "gold",
    "gold_parts",
    "gold_reward",
    "grammar_sampler",
    "policy_sampler",
    "preference_pairs",
    "preference_probability",
]
