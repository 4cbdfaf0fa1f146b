"""The exercises of chapter 23, verifiable rewards."""

from bookkit.exercises.chapter_23.aggregate import AGGREGATE
from bookkit.exercises.chapter_23.cispo import CISPO
from bookkit.exercises.chapter_23.clip import CLIP
from bookkit.exercises.chapter_23.equal import EQUAL
from bookkit.exercises.chapter_23.extract import EXTRACT
from bookkit.exercises.chapter_23.fill import FILL
from bookkit.exercises.chapter_23.group import GROUP
from bookkit.exercises.chapter_23.leave_one_out import LEAVE_ONE_OUT
from bookkit.exercises.chapter_23.noise import NOISE
from bookkit.exercises.chapter_23.overlong import OVERLONG
from bookkit.exercises.chapter_23.pass_at_k import PASS_AT_K
from bookkit.exercises.chapter_23.ratio import RATIO
from bookkit.exercises.chapter_23.repair import REPAIR

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
