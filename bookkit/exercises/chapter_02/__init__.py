"""The exercises of chapter 2, text as a decision process."""

from bookkit.exercises.chapter_02.bellman import BELLMAN
from bookkit.exercises.chapter_02.lambda_return import LAMBDA_RETURN
from bookkit.exercises.chapter_02.shaping import SHAPING
from bookkit.exercises.chapter_02.td import TD

EXERCISES = (BELLMAN, LAMBDA_RETURN, TD, SHAPING)
