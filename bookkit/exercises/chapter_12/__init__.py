"""The exercises of chapter 12, PPO for classic control."""

from bookkit.exercises.chapter_12.autoreset import AUTORESET
from bookkit.exercises.chapter_12.clip import CLIP
from bookkit.exercises.chapter_12.entropy import ENTROPY
from bookkit.exercises.chapter_12.explained import EXPLAINED
from bookkit.exercises.chapter_12.gae import GAE
from bookkit.exercises.chapter_12.gaussian import GAUSSIAN
from bookkit.exercises.chapter_12.kl import KL
from bookkit.exercises.chapter_12.minibatch import MINIBATCH
from bookkit.exercises.chapter_12.normalise import NORMALISE
from bookkit.exercises.chapter_12.repair import REPAIR

EXERCISES = (
    GAE,
    AUTORESET,
    ENTROPY,
    GAUSSIAN,
    CLIP,
    NORMALISE,
    MINIBATCH,
    KL,
    EXPLAINED,
    REPAIR,
)
