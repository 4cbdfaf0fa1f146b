"""The exercises of chapter 2, text as a decision process."""

from nbkit.exercises.chapter_02.bellman import BELLMAN
from nbkit.exercises.chapter_02.lambda_return import LAMBDA_RETURN
from nbkit.exercises.chapter_02.shaping import SHAPING
from nbkit.exercises.chapter_02.td import TD

EXERCISES = (BELLMAN, LAMBDA_RETURN, TD, SHAPING)
