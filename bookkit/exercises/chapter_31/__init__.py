"""The exercises of chapter 31, the sampling engine."""

from bookkit.exercises.chapter_31.cache import CACHE
from bookkit.exercises.chapter_31.importance import IMPORTANCE
from bookkit.exercises.chapter_31.logprob import LOGPROB
from bookkit.exercises.chapter_31.packing import PACKING
from bookkit.exercises.chapter_31.positions import POSITIONS
from bookkit.exercises.chapter_31.prefix import PREFIX
from bookkit.exercises.chapter_31.schedule import SCHEDULE
from bookkit.exercises.chapter_31.top_p import TOP_P

EXERCISES = (CACHE, POSITIONS, TOP_P, LOGPROB, PREFIX, SCHEDULE, PACKING, IMPORTANCE)
