"""The exercises of chapter 21, RLHF in three stages."""

from bookkit.exercises.chapter_21.bestofn import BEST_OF_N
from bookkit.exercises.chapter_21.controller import CONTROLLER
from bookkit.exercises.chapter_21.ending import ENDING
from bookkit.exercises.chapter_21.last import LAST
from bookkit.exercises.chapter_21.memory import MEMORY
from bookkit.exercises.chapter_21.pairs import PAIRS
from bookkit.exercises.chapter_21.preference import PREFERENCE
from bookkit.exercises.chapter_21.prompt import PROMPT
from bookkit.exercises.chapter_21.repair import REPAIR
from bookkit.exercises.chapter_21.rewards import REWARDS
from bookkit.exercises.chapter_21.scale import SCALE

EXERCISES = (
    PAIRS,
    PROMPT,
    PREFERENCE,
    LAST,
    REWARDS,
    ENDING,
    SCALE,
    CONTROLLER,
    BEST_OF_N,
    MEMORY,
    REPAIR,
)
