"""The exercises of chapter 22, DPO and its family."""

from nbkit.exercises.chapter_22.accuracy import ACCURACY
from nbkit.exercises.chapter_22.displacement import DISPLACEMENT
from nbkit.exercises.chapter_22.ipo import IPO
from nbkit.exercises.chapter_22.logprob import LOGPROB
from nbkit.exercises.chapter_22.loss import LOSS
from nbkit.exercises.chapter_22.optimum import OPTIMUM
from nbkit.exercises.chapter_22.repair import REPAIR
from nbkit.exercises.chapter_22.smoothing import SMOOTHING
from nbkit.exercises.chapter_22.weight import WEIGHT

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
