"""The exercises of chapter 22, DPO and its family."""

from bookkit.exercises.chapter_22.accuracy import ACCURACY
from bookkit.exercises.chapter_22.displacement import DISPLACEMENT
from bookkit.exercises.chapter_22.ipo import IPO
from bookkit.exercises.chapter_22.logprob import LOGPROB
from bookkit.exercises.chapter_22.loss import LOSS
from bookkit.exercises.chapter_22.optimum import OPTIMUM
from bookkit.exercises.chapter_22.repair import REPAIR
from bookkit.exercises.chapter_22.smoothing import SMOOTHING
from bookkit.exercises.chapter_22.weight import WEIGHT

EXERCISES = (
    OPTIMUM,
    LOGPROB,
    LOSS,
    WEIGHT,
    ACCURACY,
    SMOOTHING,
    IPO,
    DISPLACEMENT,
    REPAIR,
)
