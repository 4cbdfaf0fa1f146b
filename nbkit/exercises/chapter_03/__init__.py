"""The exercises of chapter 3, PyTorch traps."""

from nbkit.exercises.chapter_03.accumulate import ACCUMULATE
from nbkit.exercises.chapter_03.broadcast import BROADCAST
from nbkit.exercises.chapter_03.detach import DETACH
from nbkit.exercises.chapter_03.mask import MASK

EXERCISES = (MASK, BROADCAST, DETACH, ACCUMULATE)
