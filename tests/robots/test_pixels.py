"""Frames, stacks, shifts, and the trainer that reads them. Skipped where nothing can draw."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from nbkit.control.policies_pixels import BODIES, PixelActorCritic, shift_pictures
from nbkit.envs import opengl, rendering
from nbkit.envs.arm_model import Physics
from nbkit.envs.pixels import ArmCamera, FrameStack, PixelArms
from nbkit.envs.push import PushEnv
from nbkit.envs.reach import ReachEnv, VectorReach
from nbkit.envs.rendering import NoRenderer, SceneRenderer, choose_backend
from nbkit.envs.workers import LocalArms, PixelWorkers
from nbkit.trainers import checkpoint
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.evaluation import success_rate
from nbkit.trainers.ppo.eye import Eye
from nbkit.trainers.ppo.pixels import PixelTrainer

pytestmark = pytest.mark.chapter(41)
TINY = PPOConfig(total_steps=10_000, steps=8, epochs=2, minibatch_size=32, normalise_rewards=True)


def can_draw() -> bool:
    try:
        choose_backend()
    except NoRenderer:
        return False
    return True


draws = pytest.mark.skipif(not can_draw(), reason="neither EGL nor OSMesa opens here")


def red(frame: np.ndarray) -> np.ndarray:
    """Where a frame (3, H, W) shows the target: row and column of its middle."""
    mask = (frame[0] > 120) & (frame[1] < 70) & (frame[2] < 70)
    assert mask.any()
    return np.argwhere(mask).mean(0)


@draws
def test_the_target_is_drawn_where_it_is():
    env = VectorReach(9)
    env.reset(seed=1)
    env.core.qpos[:, 0] = 1.4  # out of the way
    camera = ArmCamera(env, 64)
    frames = camera.frames()
    middles = np.array([red(frame) for frame in frames])
    # The overhead camera: x to the right, y upwards.
    for axis, values in ((1, middles[:, 1]), (0, -middles[:, 0])):
        place = env.core.target[:, 1 - axis]
        assert np.corrcoef(place, values)[0, 1] > 0.995
    camera.close()


@draws
def test_together_and_one_by_one_are_the_same_picture():
    env = VectorReach(5)
    env.reset(seed=0)
    together = ArmCamera(env, 48)
    many = together.frames()
    together.close()
    single = SceneRenderer(env.core.models[0], 48, 48)
    for i in range(5):
        alone = single.render(env.core.models[0], env.core.datas[i], "overhead")
        apart = np.abs(alone.transpose(2, 0, 1).astype(int) - many[i].astype(int))
        assert apart.max() <= 1  # of 255: another corner of the buffer rounds otherwise
    with pytest.raises(ValueError, match="made for 1"):
        single.render_many(env.core.models, env.core.datas, "side")
    single.close()


@draws
def test_light_and_camera_can_be_randomised():
    frames = {}
    for name, physics in (
        ("plain", Physics()),
        ("dark", Physics(light=0.4)),
        ("moved", Physics(camera_m=(0.05, 0.0, 0.0))),
        ("turned", Physics(camera_rad=(0.0, 0.1, 0.0))),
    ):
        env = VectorReach(1, physics=physics)
        env.reset(seed=3)
        camera = ArmCamera(env, 64)
        frames[name] = camera.frames()[0]
        camera.close()
    assert frames["dark"].mean() < 0.7 * frames["plain"].mean()
    assert red(frames["moved"])[1] < red(frames["plain"])[1] - 2
    assert abs(red(frames["turned"])[1] - red(frames["plain"])[1]) > 2


@draws
@pytest.mark.parametrize("make", [ReachEnv, PushEnv])
def test_render_mode_gives_pictures(make):
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (240, 320, 3) and first.dtype == np.uint8 and first.std() > 5
    for _ in range(5):
        env.step(np.array([1.0, -1.0]))
    assert not np.array_equal(first, env.render())
    env.close()
    silent = make()
    silent.reset(seed=0)
    assert silent.render() is None


@draws
def test_a_state_put_back_is_drawn():
    env = ReachEnv(render_mode="rgb_array")
    env.reset(seed=1)
    state, expected = env.get_state(), env.render()
    env.reset(seed=2)
    assert not np.array_equal(expected, env.render())
    env.set_state(state)
    assert np.array_equal(expected, env.render())
    env.close()


def test_no_backend_says_what_to_install(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "backend_works", lambda name: False)
    choose_backend.cache_clear()
    with pytest.raises(NoRenderer, match=r"libegl1.*libosmesa6"):
        choose_backend()
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(NoRenderer, match="needs a display"):
        choose_backend()
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr(rendering, "backend_works", lambda name: name == "osmesa")
    assert choose_backend() == "osmesa"
    choose_backend.cache_clear()
    monkeypatch.delenv("MUJOCO_GL", raising=False)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a process that has ``environment`` besides ours."""
    clean = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(
        command, env={**clean, **environment}, capture_output=True, text=True, check=False
    )


IMPORTS = """
import importlib, sys, traceback
for name in ("arm_model", "reach", "rendering", "workers"):
    for known in [m for m in sys.modules if m.startswith(("nbkit.envs", "mujoco", "OpenGL"))]:
        del sys.modules[known]
    try:
        importlib.import_module(f"nbkit.envs.{name}")
    except Exception as error:
        print(name, "".join(traceback.format_exception_only(error)).strip())
"""


def test_a_backend_that_is_named_but_not_there_is_told_at_the_import():
    if rendering.backend_works("osmesa"):
        pytest.skip("OSMesa opens here")
    said = python(IMPORTS, MUJOCO_GL="osmesa").stdout.strip().splitlines()
    assert [line.split()[0] for line in said] == ["arm_model", "reach", "rendering", "workers"]
    for line in said:
        assert "NoRenderer: MUJOCO_GL is 'osmesa', but it does not open here" in line
        assert "unset MUJOCO_GL" in line and "libosmesa6" in line


def test_a_backend_that_does_not_exist_is_told_without_packages():
    last = python("import nbkit.envs.reach", MUJOCO_GL="bogus").stderr.strip().splitlines()[-1]
    assert "MUJOCO_GL is 'bogus', which MuJoCo cannot load here" in last
    assert "set it to egl or osmesa, or unset it" in last and "apt-get" not in last


def test_an_error_of_mujoco_itself_is_no_matter_of_the_backend(monkeypatch):
    def broken(name: str) -> None:
        raise RuntimeError("torn")

    monkeypatch.setattr(opengl.importlib, "import_module", broken)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(RuntimeError, match=r"^torn$"):
        opengl.import_mujoco()
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(NoRenderer, match=r"MUJOCO_GL is 'egl'.*torn.*libegl1"):
        opengl.import_mujoco()


def test_a_backend_that_never_answers_does_not_work(monkeypatch):
    monkeypatch.setattr(opengl, "TIMEOUT_S", 0.01)
    assert not rendering.backend_works("egl")


def test_drawing_on_a_device_that_does_not_open_leaves_the_choice_as_it_was(monkeypatch):
    opens = {"0", "1"}
    monkeypatch.setattr(
        rendering, "backend_works", lambda name: os.environ["MUJOCO_EGL_DEVICE_ID"] in opens
    )
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "0")
    monkeypatch.delenv("MUJOCO_EGL_DEVICE_ID")
    assert not rendering.draw_on(7) and "MUJOCO_EGL_DEVICE_ID" not in os.environ
    assert rendering.draw_on(1) and os.environ["MUJOCO_EGL_DEVICE_ID"] == "1"
    assert not rendering.draw_on(7) and os.environ["MUJOCO_EGL_DEVICE_ID"] == "1"


def test_a_stack_forgets_over_a_reset():
    first = torch.zeros(2, 1, 2, 2)
    stack = FrameStack(3, first)
    stack.push(first + 1, torch.tensor([False, False]))
    seen = stack.push(first + 2, torch.tensor([False, True]))
    assert seen[0, :, 0, 0].tolist() == [0.0, 1.0, 2.0]
    assert seen[1, :, 0, 0].tolist() == [2.0, 2.0, 2.0]


def test_shift_moves_whole_pixels_and_repeats_the_edge():
    picture = torch.arange(16.0).view(1, 1, 4, 4).repeat(3, 2, 1, 1)
    moved = shift_pictures(picture, torch.tensor([[1, 1], [2, 1], [1, 0]]), 1)
    assert torch.equal(moved[0], picture[0])
    assert torch.equal(moved[1, 1, :3], picture[1, 1, 1:])  # one row up
    assert torch.equal(moved[1, 1, 3], picture[1, 1, 3])  # the edge again
    assert moved[2, 0, 0].tolist() == [0.0, 0.0, 1.0, 2.0]  # one column to the right
    with pytest.raises(ValueError, match="offsets"):
        shift_pictures(picture, torch.full((3, 2), 3), 1)
    with pytest.raises(ValueError, match="offsets"):
        shift_pictures(picture, torch.zeros(2, 2, dtype=torch.int64), 1)


@pytest.mark.parametrize("body", sorted(BODIES))
def test_bodies_take_flat_and_square_bytes_and_floats(body):
    policy = PixelActorCritic(6, 40, 2, body=body, width=32)
    pictures = torch.randint(0, 256, (5, 6, 40, 40), dtype=torch.uint8)
    distribution, values = policy(pictures)
    assert distribution.mean.shape == (5, 2) and values.shape == (5,)
    assert torch.allclose(policy(pictures.flatten(1).float())[1], values)
    assert torch.equal(policy.act(pictures).mode(), distribution.mean)
    with pytest.raises(ValueError, match="body"):
        PixelActorCritic(6, 40, 2, body="transformer")
    with pytest.raises(ValueError, match="36"):
        PixelActorCritic(6, 20, 2, body="atari")


def test_the_eye_moves_all_frames_of_an_episode_alike():
    eye = Eye(2, 2, "cpu", seed=0)
    frames = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    first = eye.begin(frames)
    second = eye.see(frames, torch.zeros(4, dtype=torch.bool))
    assert torch.equal(first, second)  # the same scene, the same shift
    offsets = eye._offsets.clone()
    eye.see(frames, torch.tensor([True, True, False, False]))
    assert torch.equal(eye._offsets[2:], offsets[2:])
    assert not torch.equal(eye._offsets[:2], offsets[:2])
    plain = Eye(1, 0, "cpu", seed=0)
    assert torch.equal(plain.begin(frames), frames)


@draws
def test_the_trainer_scores_what_it_saw_and_learns_from_valid_rows():
    source = LocalArms(4, size=40, episode_steps=6)
    policy = PixelActorCritic(9, 40, 2, body="small", width=32)
    trainer = PixelTrainer(source, policy, TINY, shift=2, seed=1)
    rollout = trainer.collect()
    assert rollout.stream.dtype == torch.uint8 and rollout.stream.shape == (9, 4, 9, 40, 40)
    assert (~rollout.valid).sum() == 4  # one reset in 8 steps of episodes of 6
    assert (~rollout.valid[6]).all() and rollout.truncated[5].all()
    before = [p.clone() for p in policy.parameters()]
    metrics = trainer.step()
    assert metrics["ratio_error"] < 1e-4
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
    judged = success_rate(source, policy, frames=3, seed=5, steps=6)
    assert judged["episodes"] == 4 and 0 <= judged["success"] <= 1
    source.close()


@draws
def test_a_run_repeats_itself():
    def run() -> list[float]:
        torch.manual_seed(0)
        source = LocalArms(3, size=40)
        generator = torch.Generator().manual_seed(2)
        policy = PixelActorCritic(9, 40, 2, body="small", width=16, generator=generator)
        trainer = PixelTrainer(source, policy, TINY, seed=2)
        values = [value for _ in range(2) for value in trainer.step().values()]
        source.close()
        return values

    assert run() == run()


@draws
def test_what_a_trainer_needs_to_go_on_is_put_back(tmp_path):
    """Moments, draws and counts come back; what running episodes had earned does not."""

    def trainer_of(seed: int) -> PixelTrainer:
        policy = PixelActorCritic(9, 40, 2, body="small", width=16)
        return PixelTrainer(LocalArms(3, size=40), policy, TINY, shift=2, seed=seed)

    old, new = trainer_of(1), trainer_of(2)
    old.scale.update(torch.ones(2, 3), torch.zeros(2, 3).bool(), torch.ones(2, 3).bool())
    old.steps, old.outcomes, old.seconds["update"] = 24, [True, False], 1.5
    old.collect()
    assert old.scale.running.abs().sum() > 0
    torch.save(old.device_state(), tmp_path / "rank_0.pt")
    new.load_device_state(torch.load(tmp_path / "rank_0.pt", weights_only=True), seed=9)
    for part in ("generator", "noise"):
        assert torch.equal(getattr(old, part).get_state(), getattr(new, part).get_state()), part
    assert new.scale.state_dict()["moments"] == old.scale.state_dict()["moments"]
    assert not new.scale.running.any() and not new.ended.any()
    assert (new.steps, new.outcomes, new.seconds) == (old.steps, old.outcomes, old.seconds)
    fresh = Eye(3, 2, "cpu", seed=2)
    fresh.generator.set_state(old.eye.generator.get_state())
    fresh.begin(new.source.reset(9))
    assert torch.equal(fresh._offsets, new.eye._offsets)
    for trainer in (old, new):
        trainer.source.close()


@draws
def test_the_one_loop_runs_it_to_its_budget_and_goes_on_from_a_file(tmp_path):
    """Arms are not saved, so new episodes begin; weights, moments and counts are as they were."""
    config, path = replace(TINY, total_steps=60), tmp_path / "run.pt"

    def trainer() -> PixelTrainer:
        generator = torch.Generator().manual_seed(2)
        policy = PixelActorCritic(9, 40, 2, body="small", width=16, generator=generator)
        return PixelTrainer(LocalArms(3, size=40), policy, config, seed=2)

    first, second = trainer(), trainer()
    first.run(progress=False, checkpoint=path, checkpoint_every=1, stop=lambda _: True)
    assert len(first.history) == 1 and first.steps == 24
    checkpoint.resume(path, second)
    weights = zip(first.policy.parameters(), second.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)
    assert second.history == first.history and second.steps == 24
    assert not torch.equal(first.observations, second.observations)
    rows = second.run(progress=False)
    assert second.finished and len(rows) == 3 and rows[-1]["steps"] >= 60 > rows[-2]["steps"]
    with pytest.raises(ValueError, match="total_steps"):
        second.config = replace(config, total_steps=61)
        checkpoint.resume(path, second)
    for one in (first, second):
        one.source.close()


@draws
def test_pixels_as_a_control_environment_match_the_camera():
    env = PixelArms(VectorReach(2), size=40, frames=2)
    first = env.reset(3)
    assert first.shape == (2, 2 * 3 * 40 * 40) and env.observation_size == first.shape[1]
    transition = env.step(torch.ones(2, 2))
    seen = transition.next_observations.view(2, 2, 3, 40, 40)
    assert torch.equal(seen[:, 0], first.view(2, 2, 3, 40, 40)[:, 1])
    state = env.get_state()
    ahead = env.step(torch.ones(2, 2)).next_observations
    env.set_state(state)
    assert torch.equal(env.step(torch.ones(2, 2)).next_observations, ahead)
    env.close()


@draws
@pytest.mark.slow
def test_worker_processes_give_the_frames_of_one_process():
    workers = PixelWorkers(2, 2, size=40)
    alone = [LocalArms(2, size=40) for _ in range(2)]
    ours = workers.reset(5)
    theirs = torch.cat([arms.reset(5 + 100_003 * i) for i, arms in enumerate(alone)])
    assert torch.equal(ours, theirs)
    actions = torch.rand(4, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for _ in range(3):
        together = workers.step(actions)
        parts = [arms.step(part) for arms, part in zip(alone, actions.split(2), strict=True)]
        for ours, theirs in zip(together, zip(*parts, strict=True), strict=True):
            assert torch.equal(ours, torch.cat(theirs))
    workers.step(torch.zeros(4, 2))
    workers._views["actions"][:] = np.nan
    for pipe in workers._pipes:
        pipe.send("step")
    with pytest.raises(RuntimeError, match="diverged"):
        workers._await("done")
    workers.close()
