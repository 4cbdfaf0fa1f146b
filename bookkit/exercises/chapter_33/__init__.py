"""The exercises of chapter 33, sharding."""

from bookkit.exercises.chapter_33.clip import CLIP
from bookkit.exercises.chapter_33.cut import CUT
from bookkit.exercises.chapter_33.gather import GATHER
from bookkit.exercises.chapter_33.hand_over import HAND_OVER
from bookkit.exercises.chapter_33.reduce_scatter import REDUCE_SCATTER
from bookkit.exercises.chapter_33.tensor_parallel import TENSOR_PARALLEL
from bookkit.exercises.chapter_33.wrap import WRAP

EXERCISES = (CUT, GATHER, REDUCE_SCATTER, CLIP, WRAP, TENSOR_PARALLEL, HAND_OVER)
