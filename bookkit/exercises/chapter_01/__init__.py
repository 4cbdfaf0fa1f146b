"""The exercises of chapter 1, the score function."""

from bookkit.exercises.chapter_01.baseline import BASELINE
from bookkit.exercises.chapter_01.ess import ESS
from bookkit.exercises.chapter_01.gradient import GRADIENT
from bookkit.exercises.chapter_01.offpolicy import OFFPOLICY

EXERCISES = (GRADIENT, BASELINE, ESS, OFFPOLICY)
