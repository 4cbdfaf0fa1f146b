"""The exercises of chapter 3, PyTorch traps."""

from bookkit.exercises.chapter_03.accumulate import ACCUMULATE
from bookkit.exercises.chapter_03.broadcast import BROADCAST
from bookkit.exercises.chapter_03.detach import DETACH
from bookkit.exercises.chapter_03.mask import MASK

EXERCISES = (MASK, BROADCAST, DETACH, ACCUMULATE)
