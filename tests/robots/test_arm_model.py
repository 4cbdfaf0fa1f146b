"""The closed-form kinematics, the parameters, and the model file say the same."""

import mujoco
import numpy as np
import pytest

from nbkit.envs import arm_model
from nbkit.envs.arm_model import (
    NOMINAL,
    Physics,
    forward_kinematics,
    inverse_kinematics,
    load_model,
    tip_velocity,
)

pytestmark = pytest.mark.chapter(41)
ANGLES = np.random.default_rng(0).uniform(-2, 2, (50, 2))


def test_straight_and_bent_arm_by_hand():
    angles = np.array([[0.0, 0.0], [0.0, np.pi / 2], [np.pi / 2, -np.pi / 2]])
    expected = [[0.4, 0.0], [0.2, 0.2], [0.2, 0.2]]
    assert np.allclose(forward_kinematics(angles), expected)


def test_the_engine_puts_the_tip_where_the_formula_does():
    model = load_model("arm")
    data = mujoco.MjData(model)
    for angles in ANGLES:
        data.qpos[:] = angles
        mujoco.mj_forward(model, data)
        tip = data.site("tip").xpos[:2]
        assert np.allclose(tip, forward_kinematics(angles[None])[0], atol=1e-12)
        assert np.allclose(data.sensor("tip position").data[:2], tip)


def test_velocity_is_the_derivative_of_position():
    speeds = np.random.default_rng(1).normal(size=(50, 2))
    h = 1e-6
    slope = (forward_kinematics(ANGLES + h * speeds) - forward_kinematics(ANGLES - h * speeds)) / (
        2 * h
    )
    assert np.allclose(slope, tip_velocity(ANGLES, speeds), atol=1e-8)


def test_inverse_kinematics_reaches_points_within_reach_and_points_at_others():
    rng = np.random.default_rng(2)
    radius, angle = rng.uniform(0.01, 0.399, 50), rng.uniform(-np.pi, np.pi, 50)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    assert np.allclose(forward_kinematics(inverse_kinematics(points)), points, atol=1e-9)
    far = np.array([[1.0, 1.0]])
    assert np.allclose(forward_kinematics(inverse_kinematics(far)), 0.4 / np.sqrt(2))


def test_physics_scales_what_it_names_and_leaves_the_file_alone():
    model = load_model(
        "push", Physics(mass=2.0, friction=0.5, damping=3.0, joint_friction_nm=0.1, light=0.5)
    )
    written = load_model("push")
    assert np.allclose(model.body_mass, 2 * written.body_mass)
    assert np.allclose(model.dof_damping, 3 * written.dof_damping)
    assert np.allclose(model.dof_frictionloss, [0.1, 0.1, 0.1, 0.1])  # the puck's 0.2, halved
    assert np.allclose(model.geom_friction, 0.5 * written.geom_friction)
    assert np.allclose(model.light_diffuse, 0.5 * written.light_diffuse)
    moved = load_model("arm", Physics(camera_m=(0.01, -0.02, 0.03)))
    assert np.allclose(moved.cam_pos[0] - load_model("arm").cam_pos[0], [0.01, -0.02, 0.03])
    assert np.allclose(moved.cam_pos[1], load_model("arm").cam_pos[1])
    assert np.array_equal(moved.cam_quat, load_model("arm").cam_quat)
    turned = load_model("arm", Physics(camera_rad=(0.0, 0.0, 0.2)))  # from no turn at all
    assert np.allclose(turned.cam_quat[0], [np.cos(0.1), 0.0, 0.0, np.sin(0.1)])
    assert np.array_equal(turned.cam_quat[1], load_model("arm").cam_quat[1])
    arm_model.apply_physics(turned, "arm", NOMINAL)
    assert np.array_equal(turned.cam_quat, load_model("arm").cam_quat)
    arm_model.apply_physics(model, "push", NOMINAL)
    assert np.allclose(model.body_mass, written.body_mass)


def test_a_heavier_arm_is_slower():
    def after(physics: Physics) -> float:
        model = load_model("arm", physics)
        data = mujoco.MjData(model)
        data.ctrl[:] = 4.0, 0.0
        mujoco.mj_step(model, data, 3)
        return float(data.qvel[0])

    assert after(Physics(mass=3.0)) < 0.8 * after(NOMINAL)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mass": 0.0}, "mass"),
        ({"damping": -1.0}, "damping"),
        ({"latency_steps": 0.5}, "latency_steps must be whole"),
    ],
)
def test_nonsense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Physics(**settings)


def test_an_unknown_model_is_named():
    with pytest.raises(ValueError, match="name"):
        load_model("hand")
