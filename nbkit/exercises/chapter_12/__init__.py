"""The exercises of chapter 12, PPO for classic control."""

from nbkit.exercises.chapter_12.autoreset import AUTORESET
from nbkit.exercises.chapter_12.clip import CLIP
from nbkit.exercises.chapter_12.entropy import ENTROPY
from nbkit.exercises.chapter_12.explained import EXPLAINED
from nbkit.exercises.chapter_12.gae import GAE
from nbkit.exercises.chapter_12.gaussian import GAUSSIAN
from nbkit.exercises.chapter_12.kl import KL
from nbkit.exercises.chapter_12.minibatch import MINIBATCH
from nbkit.exercises.chapter_12.normalise import NORMALISE
from nbkit.exercises.chapter_12.repair import REPAIR

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
