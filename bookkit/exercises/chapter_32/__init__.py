"""The exercises of chapter 32, data parallel training."""

from bookkit.exercises.chapter_32.buckets import BUCKETS
from bookkit.exercises.chapter_32.overlap import OVERLAP
from bookkit.exercises.chapter_32.ports import PORTS
from bookkit.exercises.chapter_32.ring import RING
from bookkit.exercises.chapter_32.streams import STREAMS
from bookkit.exercises.chapter_32.tokens import TOKENS

EXERCISES = (RING, BUCKETS, OVERLAP, TOKENS, STREAMS, PORTS)
