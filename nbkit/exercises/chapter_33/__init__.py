"""The exercises of chapter 33, sharding."""

from nbkit.exercises.chapter_33.clip import CLIP
from nbkit.exercises.chapter_33.cut import CUT
from nbkit.exercises.chapter_33.gather import GATHER
from nbkit.exercises.chapter_33.hand_over import HAND_OVER
from nbkit.exercises.chapter_33.reduce_scatter import REDUCE_SCATTER
from nbkit.exercises.chapter_33.tensor_parallel import TENSOR_PARALLEL
from nbkit.exercises.chapter_33.wrap import WRAP

EXERCISES = (CUT, GATHER, REDUCE_SCATTER, CLIP, WRAP, TENSOR_PARALLEL, HAND_OVER)
