"""The exercises of chapter 11, REINFORCE for controlled text generation."""

from bookkit.exercises.chapter_11.baseline import BASELINE
from bookkit.exercises.chapter_11.distinct import DISTINCT
from bookkit.exercises.chapter_11.exact import EXACT
from bookkit.exercises.chapter_11.kl import KL
from bookkit.exercises.chapter_11.logprobs import LOGPROBS
from bookkit.exercises.chapter_11.loss import LOSS
from bookkit.exercises.chapter_11.mask import MASK
from bookkit.exercises.chapter_11.repair import REPAIR
from bookkit.exercises.chapter_11.returns import RETURNS

EXERCISES = (MASK, LOGPROBS, RETURNS, LOSS, BASELINE, EXACT, KL, DISTINCT, REPAIR)
