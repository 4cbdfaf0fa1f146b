"""The exercises of chapter 41, PPO for robotic manipulation."""

from bookkit.exercises.chapter_41.frames import STACK
from bookkit.exercises.chapter_41.kinematics import KINEMATICS
from bookkit.exercises.chapter_41.latency import LATENCY
from bookkit.exercises.chapter_41.same_step import SAME_STEP
from bookkit.exercises.chapter_41.scale import SCALE
from bookkit.exercises.chapter_41.shaping import SHAPING
from bookkit.exercises.chapter_41.shift import SHIFT
from bookkit.exercises.chapter_41.squash import SQUASH

EXERCISES = (KINEMATICS, SQUASH, SCALE, SHAPING, STACK, SHIFT, LATENCY, SAME_STEP)
