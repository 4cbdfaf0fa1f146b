"""A small arm on a table: its MuJoCo model, its physical parameters, its closed-form kinematics.

Two hinges with vertical axes move the tool in a plane above the table. The model is written by hand
in ``assets/arm.xml``; ``assets/push.xml`` adds a puck.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbkit._inputs import check_choice, check_number
from nbkit.envs.opengl import import_mujoco

if TYPE_CHECKING:
    from mujoco import MjModel

mujoco = import_mujoco()
Array = NDArray[np.float64]

ASSETS = Path(__file__).parent / "assets"
UPPER_M = 0.2  # length of the upper arm; the tests compare these with the model's own
FORE_M = 0.2
SPEED_LIMIT = 4.0  # rad/s that an action of 1 asks of a joint
TARGET_RADIUS_M = 0.03


@dataclass(frozen=True)
class Physics:
    """What differs between one arm and the next. The defaults are the model as written.

    Attributes:
        mass: factor on all masses and inertias.
        friction: factor on dry and contact friction; also Nm of dry friction in each joint at
            ``joint_friction_nm``.
        damping: factor on the joints' viscous damping.
        joint_friction_nm: dry friction in each hinge; 0 as written.
        latency_steps: control steps between an action and its arrival at the motors.
        light: factor on the brightness of the lamps.
        camera_m: shift of the overhead camera along x, y, z.
        camera_rad: its turn, as a rotation vector along its own right, up and backward axes.

    """

    mass: float = 1.0
    friction: float = 1.0
    damping: float = 1.0
    joint_friction_nm: float = 0.0
    latency_steps: int = 0
    light: float = 1.0
    camera_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    camera_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        check_number("mass", self.mass, 0.0, open_low=True)
        for name in ("friction", "damping", "joint_friction_nm", "light", "latency_steps"):
            check_number(name, getattr(self, name), 0)
        if int(self.latency_steps) != self.latency_steps:
            raise ValueError(f"latency_steps must be whole; got {self.latency_steps}")


NOMINAL = Physics()


@cache
def _as_written(name: str) -> "MjModel":
    return mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))


def load_model(name: str, physics: Physics = NOMINAL) -> "MjModel":
    """Return a ``mujoco.MjModel`` of its own, with the parameters changed.

    Args:
        name: "arm" or "push".
        physics: the parameters.

    """
    check_choice("name", name, ("arm", "push"))
    model = mujoco.MjModel.from_xml_path(str(ASSETS / f"{name}.xml"))
    apply_physics(model, name, physics)
    return model


def apply_physics(model: "MjModel", name: str, physics: Physics) -> None:
    """Set ``model``'s parameters from those written in the file ``name``, times ``physics``."""
    written = _as_written(name)
    model.body_mass[:] = written.body_mass * physics.mass
    model.body_inertia[:] = written.body_inertia * physics.mass
    model.dof_damping[:] = written.dof_damping * physics.damping
    model.dof_frictionloss[:] = written.dof_frictionloss * physics.friction
    model.dof_frictionloss[:2] = physics.joint_friction_nm
    model.geom_friction[:] = written.geom_friction * physics.friction
    model.light_diffuse[:] = written.light_diffuse * physics.light
    model.vis.headlight.ambient[:] = written.vis.headlight.ambient * physics.light
    model.vis.headlight.diffuse[:] = written.vis.headlight.diffuse * physics.light
    model.cam_pos[:] = written.cam_pos
    model.cam_pos[0] += physics.camera_m  # the overhead camera is the first
    model.cam_quat[:] = written.cam_quat
    mujoco.mju_quatIntegrate(model.cam_quat[0], np.array(physics.camera_rad), 1.0)
    mujoco.mj_setConst(model, mujoco.MjData(model))


def forward_kinematics(angles: Array) -> Array:
    """Map joint angles (N, 2) in rad to the tip (N, 2) in m, seen from above."""
    shoulder, both = angles[:, 0], angles[:, 0] + angles[:, 1]
    x = UPPER_M * np.cos(shoulder) + FORE_M * np.cos(both)
    y = UPPER_M * np.sin(shoulder) + FORE_M * np.sin(both)
    return np.stack([x, y], axis=1)


def tip_velocity(angles: Array, speeds: Array) -> Array:
    """Map joint angles and speeds (N, 2) to the tip's velocity (N, 2) in m/s: the Jacobian."""
    shoulder, both = angles[:, 0], angles[:, 0] + angles[:, 1]
    fast = speeds[:, 0] + speeds[:, 1]
    x = -UPPER_M * np.sin(shoulder) * speeds[:, 0] - FORE_M * np.sin(both) * fast
    y = UPPER_M * np.cos(shoulder) * speeds[:, 0] + FORE_M * np.cos(both) * fast
    return np.stack([x, y], axis=1)


def inverse_kinematics(points: Array) -> Array:
    """Map points (N, 2) in m to joint angles (N, 2) with the elbow bent to the left.

    Points out of reach are answered by the straight arm that points at them.
    """
    squared = (points**2).sum(1)
    cosine = (squared - UPPER_M**2 - FORE_M**2) / (2 * UPPER_M * FORE_M)
    elbow = np.arccos(np.clip(cosine, -1.0, 1.0))
    toward = np.arctan2(points[:, 1], points[:, 0])
    inside = np.arctan2(FORE_M * np.sin(elbow), UPPER_M + FORE_M * np.cos(elbow))
    return np.stack([toward - inside, elbow], axis=1)
