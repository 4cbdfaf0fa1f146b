"""The exercises of chapter 11, REINFORCE for controlled text generation."""

from nbkit.exercises.chapter_11.baseline import BASELINE
from nbkit.exercises.chapter_11.distinct import DISTINCT
from nbkit.exercises.chapter_11.exact import EXACT
from nbkit.exercises.chapter_11.kl import KL
from nbkit.exercises.chapter_11.logprobs import LOGPROBS
from nbkit.exercises.chapter_11.loss import LOSS
from nbkit.exercises.chapter_11.mask import MASK
from nbkit.exercises.chapter_11.repair import REPAIR
from nbkit.exercises.chapter_11.returns import RETURNS

EXERCISES = (MASK, LOGPROBS, RETURNS, LOSS, BASELINE, EXACT, KL, DISTINCT, REPAIR)
