"""The exercises of chapter 31, the sampling engine."""

from nbkit.exercises.chapter_31.cache import CACHE
from nbkit.exercises.chapter_31.importance import IMPORTANCE
from nbkit.exercises.chapter_31.logprob import LOGPROB
from nbkit.exercises.chapter_31.packing import PACKING
from nbkit.exercises.chapter_31.positions import POSITIONS
from nbkit.exercises.chapter_31.prefix import PREFIX
from nbkit.exercises.chapter_31.schedule import SCHEDULE
from nbkit.exercises.chapter_31.top_p import TOP_P

EXERCISES = (CACHE, POSITIONS, TOP_P, LOGPROB, PREFIX, SCHEDULE, PACKING, IMPORTANCE)
