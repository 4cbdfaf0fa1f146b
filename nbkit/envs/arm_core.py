"""N arms in one process: physics, latency, time limit. Tasks say what is seen and what is paid.

``ArmCore`` knows no autoreset. The single and the vectorised environments are thin shells around
it, so that what holds for one holds for the other.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from nbkit._inputs import check_choice, check_number
from nbkit.envs import arm_rewards
from nbkit.envs.arm_model import (
    NOMINAL,
    SPEED_LIMIT,
    Array,
    Physics,
    apply_physics,
    forward_kinematics,
    load_model,
    tip_velocity,
)
from nbkit.envs.opengl import import_mujoco

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

mujoco = import_mujoco()
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
SUBSTEPS = 2  # physics steps of 0.02 s between two actions: 25 actions a second
EPISODE_STEPS = 50
ACTION_SIZE = 2
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class ArmTask(Protocol):
    """What tells reaching from pushing."""

    model: str
    observation_size: int

    def place(self, core: "ArmCore", rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Draw joint angles, target and objects for some of the environments."""
        ...

    def observe(self, core: "ArmCore") -> Array:
        """Return (N, O)."""
        ...

    def cost_m(self, core: "ArmCore") -> Array:
        """Return the distance still to go (N,), in m; what the dense rewards are made of."""
        ...

    def distance_m(self, core: "ArmCore") -> Array:
        """Return the distance that success is judged by, (N,)."""
        ...

    def success(self, core: "ArmCore") -> Bools:
        """Return (N,): is the task done?"""
        ...


def _place_scene(model: "MjModel", data: "MjData") -> None:
    """Compute where everything is drawn and measured; ``mj_forward`` would touch the warm start."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    mujoco.mj_sensorPos(model, data)


class ArmCore:
    """N arms and one task.

    Args:
        task: reach or push.
        num_envs: N.
        reward: a form of ``nbkit.envs.arm_rewards``.
        gamma: of the potential.
        episode_steps: the time limit.

    Attributes:
        qpos, qvel: (N, nq), (N, nv) joint angles and speeds, then the puck.
        tip: (N, 2) m.
        target: (N, 2) m.
        last_action: (N, 2) what the agent asked for last.
        steps: (N,) of the running episodes.

    """

    def __init__(
        self,
        task: ArmTask,
        num_envs: int,
        *,
        reward: str = "dense",
        gamma: float = 0.95,
        episode_steps: int = EPISODE_STEPS,
    ) -> None:
        check_number("num_envs", num_envs, 1)
        check_number("episode_steps", episode_steps, 1)
        check_number("gamma", gamma, 0.0, 1.0)
        check_choice("reward", reward, arm_rewards.FORMS)
        self.task, self.num_envs, self.reward = task, num_envs, reward
        self.gamma, self.episode_steps = gamma, episode_steps
        shared = load_model(task.model)
        self._shared = shared  # until an environment gets parameters of its own
        self.models = [shared] * num_envs
        self.datas = [mujoco.MjData(shared) for _ in range(num_envs)]
        self.physics = [NOMINAL] * num_envs
        self.qpos = np.zeros((num_envs, shared.nq))
        self.qvel = np.zeros((num_envs, shared.nv))
        self.tip = np.zeros((num_envs, 2))
        self.target = np.zeros((num_envs, 2))
        self.last_action = np.zeros((num_envs, ACTION_SIZE))
        self.steps = np.zeros(num_envs, dtype=np.int64)
        self._queues = [np.zeros((1, ACTION_SIZE)) for _ in range(num_envs)]
        self.cost = np.zeros(num_envs)

    def set_physics(self, row: int, physics: Physics) -> None:
        """Give one environment parameters of its own; call it before its ``reset``."""
        if physics == self.physics[row]:
            return
        if self.models[row] is self._shared:
            self.models[row] = load_model(self.task.model, physics)
            self.datas[row] = mujoco.MjData(self.models[row])
        else:
            apply_physics(self.models[row], self.task.model, physics)
        self.physics[row] = physics

    def reset(self, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Begin new episodes in some environments."""
        self.task.place(self, rows, rng)
        self.qvel[rows] = 0.0
        self.last_action[rows] = 0.0
        self.steps[rows] = 0
        for i in rows:
            model, data = self.models[i], self.datas[i]
            mujoco.mj_resetData(model, data)
            data.qpos[:] = self.qpos[i]
            data.mocap_pos[0, :2] = self.target[i]
            mujoco.mj_forward(model, data)
            self._queues[i] = np.zeros((self.physics[i].latency_steps + 1, ACTION_SIZE))
        self._look()

    def step(self, actions: Floats) -> tuple[Floats, Array, Bools, Bools, dict[str, Any]]:
        """Act in every environment; nothing is reset.

        Args:
            actions: (N, 2) in [-1, 1]: the joint speeds asked for, in units of the limit.

        Returns:
            observations (N, O) float32, rewards (N,), terminated (N,), truncated (N,), and a
            dictionary of arrays (N,): "is_success", "distance".

        Raises:
            ValueError: actions of another shape, or not finite.

        """
        asked: Array = np.asarray(actions, dtype=np.float64)
        if asked.shape != (self.num_envs, ACTION_SIZE):
            raise ValueError(
                f"actions must be (N, 2) = ({self.num_envs}, 2); got {tuple(asked.shape)}"
            )
        if not np.isfinite(asked).all():
            raise ValueError("actions hold NaN or infinity: has the policy diverged?")
        asked = np.clip(asked, -1.0, 1.0)
        before = self.cost
        for i, (model, data, queue) in enumerate(
            zip(self.models, self.datas, self._queues, strict=True)
        ):
            if len(queue) > 1:
                queue[:-1] = queue[1:]
            queue[-1] = asked[i]
            data.ctrl[:] = queue[0] * SPEED_LIMIT
            mujoco.mj_step(model, data, SUBSTEPS)
            self.qpos[i], self.qvel[i] = data.qpos, data.qvel
        self.last_action = asked
        self.steps += 1
        self._look()
        success = self.task.success(self)
        rewards = arm_rewards.reward(
            self.reward,
            cost_before_m=before,
            cost_m=self.cost,
            success=success,
            actions=asked,
            gamma=self.gamma,
        )
        truncated = (self.steps >= self.episode_steps) & ~success
        info = {"is_success": success, "distance": self.task.distance_m(self)}
        return self.observe(), rewards, success.copy(), truncated, info

    def observe(self) -> Floats:
        """Return the observations (N, O)."""
        return self.task.observe(self).astype(np.float32)

    def _look(self) -> None:
        self.tip = forward_kinematics(self.qpos)
        self.cost = self.task.cost_m(self)

    def tip_speed(self) -> Array:
        """Return the tip's speed (N,), m/s."""
        return np.linalg.norm(tip_velocity(self.qpos, self.qvel), axis=1)

    def get_state(self) -> dict[str, Any]:
        """Return everything as tensors and plain data, for a checkpoint."""
        engine = np.empty((self.num_envs, mujoco.mj_stateSize(self.models[0], _STATE)))
        for row, model, data in zip(engine, self.models, self.datas, strict=True):
            mujoco.mj_getState(model, data, row, _STATE)
        return {
            "engine": torch.from_numpy(engine),
            "physics": [asdict(physics) for physics in self.physics],
            "queues": [torch.from_numpy(queue.copy()) for queue in self._queues],
            "target": torch.from_numpy(self.target.copy()),
            "last_action": torch.from_numpy(self.last_action.copy()),
            "steps": torch.from_numpy(self.steps.copy()),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where ``get_state`` was called.

        Later steps are the same to the bit. A picture shows the scene as it is now, while after a
        step it shows the one that the last of the ``SUBSTEPS`` began with.

        Args:
            state: of as many arms.

        Raises:
            ValueError: a state of another number of arms.

        """
        if len(state["physics"]) != self.num_envs:
            raise ValueError(
                f"state holds {len(state['physics'])} arms; this environment has {self.num_envs}"
            )
        for i, values in enumerate(state["physics"]):
            # Lists in JSON are tuples here.
            plain: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
            }
            self.set_physics(i, Physics(**plain))
            model, data = self.models[i], self.datas[i]
            mujoco.mj_setState(model, data, state["engine"][i].numpy(), _STATE)
            _place_scene(model, data)
            self.qpos[i], self.qvel[i] = data.qpos, data.qvel
        self._queues = [queue.numpy().copy() for queue in state["queues"]]
        self.target = state["target"].numpy().copy()
        self.last_action = state["last_action"].numpy().copy()
        self.steps = state["steps"].numpy().copy()
        self._look()
