"""The exercises of chapter 21, RLHF in three stages."""

from nbkit.exercises.chapter_21.bestofn import BEST_OF_N
from nbkit.exercises.chapter_21.controller import CONTROLLER
from nbkit.exercises.chapter_21.ending import ENDING
from nbkit.exercises.chapter_21.last import LAST
from nbkit.exercises.chapter_21.memory import MEMORY
from nbkit.exercises.chapter_21.pairs import PAIRS
from nbkit.exercises.chapter_21.preference import PREFERENCE
from nbkit.exercises.chapter_21.prompt import PROMPT
from nbkit.exercises.chapter_21.repair import REPAIR
from nbkit.exercises.chapter_21.rewards import REWARDS
from nbkit.exercises.chapter_21.scale import SCALE

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
