"""The exercises of chapter 1, the score function."""

from nbkit.exercises.chapter_01.baseline import BASELINE
from nbkit.exercises.chapter_01.ess import ESS
from nbkit.exercises.chapter_01.gradient import GRADIENT
from nbkit.exercises.chapter_01.offpolicy import OFFPOLICY

EXERCISES = (GRADIENT, BASELINE, ESS, OFFPOLICY)
