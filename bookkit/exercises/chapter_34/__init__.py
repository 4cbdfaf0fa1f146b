"""The exercises of chapter 34, DeepSpeed ZeRO and the comparison of the back-ends."""

from bookkit.exercises.chapter_34.batch import BATCH
from bookkit.exercises.chapter_34.choose import CHOOSE
from bookkit.exercises.chapter_34.memory import MEMORY
from bookkit.exercises.chapter_34.step import STEP

EXERCISES = (MEMORY, STEP, BATCH, CHOOSE)
