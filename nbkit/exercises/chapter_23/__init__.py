"""The exercises of chapter 23, verifiable rewards."""

from nbkit.exercises.chapter_23.aggregate import AGGREGATE
from nbkit.exercises.chapter_23.cispo import CISPO
from nbkit.exercises.chapter_23.clip import CLIP
from nbkit.exercises.chapter_23.equal import EQUAL
from nbkit.exercises.chapter_23.extract import EXTRACT
from nbkit.exercises.chapter_23.fill import FILL
from nbkit.exercises.chapter_23.group import GROUP
from nbkit.exercises.chapter_23.leave_one_out import LEAVE_ONE_OUT
from nbkit.exercises.chapter_23.noise import NOISE
from nbkit.exercises.chapter_23.overlong import OVERLONG
from nbkit.exercises.chapter_23.pass_at_k import PASS_AT_K
from nbkit.exercises.chapter_23.ratio import RATIO
from nbkit.exercises.chapter_23.repair import REPAIR

EXERCISES = (
    EXTRACT,
    EQUAL,
    GROUP,
    LEAVE_ONE_OUT,
    AGGREGATE,
    CLIP,
    FILL,
    OVERLONG,
    RATIO,
    CISPO,
    PASS_AT_K,
    NOISE,
    REPAIR,
)
