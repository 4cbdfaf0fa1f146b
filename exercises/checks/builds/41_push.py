"""The judge of build 41: an agent for continuous actions that pushes a puck to its target."""

from ppo_twins import NO_CLIP, NO_DISCOUNT, SIGN_AND_ENDS
from push_probes import PROBE_STAGE
from push_probes import SETTINGS as PROBE_SETTINGS

from bookkit.builds.limits import Budget
from bookkit.builds.pushing import PushStage
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

NUM_ENVS = 64
PUSH = {
    **PROBE_SETTINGS,
    "total_steps": 800_000,
    "rollout_steps": 32,
    "gamma": 0.95,
    "lam": 0.95,
    "learning_rate": 3e-3,
    "epochs": 8,
    "minibatch_size": 1024,
    "reward_scale": 0.1,
}

NOISE = "u = mean + torch.randn(mean.shape, generator=generator) * agent.log_std.exp()"
OLD = 'log_ratio = log_density(rows["actions"], mean, agent.log_std) - rows["logprobs"]'
TWINS = (
    *SIGN_AND_ENDS,
    edit(
        "rewards as they are",
        "step.rewards * settings.reward_scale",
        "step.rewards",
        "are not multiplied by `reward_scale`",
    ),
    NO_DISCOUNT,
    edit(
        "density of one dimension",
        "(each - log_slope(u)).sum(-1)",
        "(each - log_slope(u)).mean(-1)",
        "is the sum over its dimensions",
    ),
    edit(
        "squash without its correction",
        "(of_u + log_slope(mean + noise * log_std.exp()))",
        "of_u",
        "the correction for the squash is missing",
    ),
    edit(
        "the bonus is a penalty",
        "loss = loss - settings.entropy_coefficient",
        "loss = loss + settings.entropy_coefficient",
        "The entropy bonus is missing or has the wrong sign",
    ),
    edit(
        "stale log-densities",
        OLD,
        "now = log_density(rows['actions'], mean, agent.log_std)\n"
        "    log_ratio = now - now.detach()",
        "stale or computed anew",
    ),
    NO_CLIP,
    edit(
        "one draw for all environments",
        NOISE,
        NOISE.replace("mean.shape", "mean.shape[1:]"),
        "one seed, or one draw, serves them all",
    ),
    edit("the mean in training", NOISE, "u = mean", "not its mean taken"),
    edit(
        "advantages of another environment",
        "found[t] = trace",
        "found[t] = trace.roll(1)",
        "the policy hardly moves",
    ),
    edit(
        "raw observations at the judgement",
        "return self.mean(observations).tanh(), self.value(observations)",
        "return self.actor(observations).tanh(), self.critic(observations).squeeze(-1)",
        "is not done, or done otherwise, when the agent is asked",
    ),
    edits(
        "moments that go on",
        (
            "return self.mean(observations).tanh(), self.value(observations)",
            "self.moments.update(observations)\n"
            "        return self.mean(observations).tanh(), self.value(observations)",
        ),
        message="its answer depends on what else it is shown",
    ),
    edit(
        "an action without its squash",
        "return self.mean(observations).tanh(), self.value(observations)",
        "return self.mean(observations), self.value(observations)",
        "must lie between -1 and 1",
    ),
)


BUILD = Build(
    number=41,
    slug="push",
    title="An arm that moves a puck",
    part="motion",
    budget=Budget(processor_seconds=300.0),
    stages=(
        PROBE_STAGE,
        PushStage("push", PUSH, num_envs=NUM_ENVS, threshold=0.75),
    ),
    milestones=(
        "ppo.autoreset.1",
        "robot.squash.1",
        "ppo.gae.1",
        "ppo.clip.1",
        "robot.scale.1",
        "robot.shaping.1",
    ),
    twins=TWINS,
    not_tested="pixels, other arms, a puck that must stay at rest, and other seeds.",
)
