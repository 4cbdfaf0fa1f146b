"""The exercises of chapter 32, data parallel training."""

from nbkit.exercises.chapter_32.buckets import BUCKETS
from nbkit.exercises.chapter_32.overlap import OVERLAP
from nbkit.exercises.chapter_32.ports import PORTS
from nbkit.exercises.chapter_32.ring import RING
from nbkit.exercises.chapter_32.streams import STREAMS
from nbkit.exercises.chapter_32.tokens import TOKENS

EXERCISES = (RING, BUCKETS, OVERLAP, TOKENS, STREAMS, PORTS)
