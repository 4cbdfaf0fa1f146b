"""The exercises of chapter 11, REINFORCE for controlled text generation."""

from nbkit.exercises.chapter_11.mask import MASK

EXERCISES = (MASK,)
