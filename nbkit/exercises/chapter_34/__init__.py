"""The exercises of chapter 34, DeepSpeed ZeRO and the comparison of the back-ends."""

from nbkit.exercises.chapter_34.batch import BATCH
from nbkit.exercises.chapter_34.choose import CHOOSE
from nbkit.exercises.chapter_34.memory import MEMORY
from nbkit.exercises.chapter_34.step import STEP

EXERCISES = (MEMORY, STEP, BATCH, CHOOSE)
