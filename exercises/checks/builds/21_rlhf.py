"""The judge of build 21: a reward model, and PPO that stays within a KL budget."""

from rlhf_probes import POLICY_STAGE

from bookkit.builds.aligning import AligningStage
from bookkit.builds.limits import Budget
from bookkit.builds.preferring import PreferringStage
from bookkit.builds.recorded import Recorded
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit

PREFERRING = {"steps": 150, "batch_size": 64, "learning_rate": 1e-2, "max_grad_norm": 1.0}
REWARDING = {"steps": 300, "batch_size": 64, "learning_rate": 3e-3, "max_grad_norm": 1.0}
SETTINGS = {
    "updates": 40,
    "batch_size": 128,
    "epochs": 2,
    "minibatches": 2,
    "learning_rate": 1e-3,
    "value_learning_rate": 3e-3,
    "kl_coefficient": 0.2,
    "clip": 0.2,
    "lam": 0.95,
    "missing_eos_penalty": 1.0,
    "max_grad_norm": 1.0,
}
BESIDE = tuple(
    Recorded(
        label,
        "benchmarks/results/rlhf.json",
        ("runs", key),
        "curve",
        x="update",
        y="gold",
        scale=64,
    )
    for label, key in (("the book, in chapter 21's world", "nbkit"), ("TRL, there", "trl"))
)
KL_TERMS = "kl_coefficient * torch.where(mask, logprobs - reference, 0.0)"
LAST = "is_last = mask & (mask.cumsum(1) == mask.sum(1, keepdim=True))"
RATIO = '(logprobs_of(policy, rows["ids"], width) - rows["logprobs"]).exp()'
NOW = 'logprobs_of(policy, rows["ids"], width)'
TWINS = (
    edit(
        "the reward model has the wrong sign",
        "loss = -logsigmoid(chosen - rejected)",
        "loss = -logsigmoid(rejected - chosen)",
        "It prefers the answers that lost",
    ),
    edit(
        "the score is read at the padding",
        "last = torch.where(mask, torch.arange(ids.shape[1]), -1).amax(1)",
        "last = torch.full((len(ids),), ids.shape[1] - 1)",
        "changes with the padding behind the answer",
    ),
    edit(
        "the score is read at the first token",
        "torch.arange(ids.shape[1]), -1).amax(1)",
        "torch.arange(ids.shape[1]), 99).amin(1)",
        "only the prompt is read",
    ),
    edit(
        "wrong sign",
        "policy_loss = -torch.where",
        "policy_loss = torch.where",
        "advantage has the wrong sign",
    ),
    edit(
        "the most likely token",
        "torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]",
        "logits.argmax(-1)",
        "all answers to a prompt are the same",
    ),
    edit(
        "the optimiser holds a copy",
        "torch.optim.Adam(m.parameters()",
        "torch.optim.Adam(copy.deepcopy(m).parameters()",
        "holds the parameters of a copy",
    ),
    edit(
        "no mask",
        "mask.append(running)",
        "mask.append(torch.ones_like(running))",
        "the mask counts places behind the end",
    ),
    edit(
        "a mask without the end",
        "mask.append(running)",
        "mask.append(running & (tokens != world.eos_id))",
        "the mask leaves out a token",
    ),
    edit(
        "no mask behind the scores",
        "    rewards = token_rewards(",
        "    mask = torch.ones_like(mask)\n    rewards = token_rewards(",
        "what stands behind the end counts",
    ),
    edit(
        "the score is paid in the last column",
        LAST,
        "is_last = torch.arange(mask.shape[1]).expand_as(mask) == mask.shape[1] - 1",
        "is paid in the last column",
    ),
    edit(
        "no KL",
        KL_TERMS,
        "0.0 * torch.where(mask, logprobs - reference, 0.0)",
        "the KL penalty is missing",
    ),
    edit(
        "KL at the last token alone",
        "torch.where(is_last, scores[:, None], 0.0) - penalty",
        "torch.where(is_last, scores[:, None] - penalty, 0.0)",
        "only some of the tokens pay it",
    ),
    edit(
        "KL from the wrong side",
        KL_TERMS,
        "kl_coefficient * torch.where(mask, reference - logprobs, 0.0)",
        "from the wrong side and pays for distance",
    ),
    edit(
        "the reference's surprise alone",
        KL_TERMS,
        "kl_coefficient * torch.where(mask, -reference, 0.0)",
        "the reference's favourite answers",
    ),
    edit(
        "whitened over the padding",
        "counted = advantages[mask]",
        "counted = advantages.flatten()",
        "and not over the padding",
    ),
    edit(
        "advantages as targets of the values",
        "return found, found + held",
        "return found, found",
        "The target of a value is the return",
    ),
    edit(
        "stale log-probabilities",
        RATIO,
        f"({NOW} - {NOW}.detach()).exp()",
        "stale or computed anew",
    ),
    edit(
        "no clip",
        "clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)",
        "clipped = ratio",
        "the ratio is not clipped",
    ),
    edit(
        "few comparisons",
        "pairs = world.comparisons(world.comparisons_left)",
        "pairs = world.comparisons(min(64, world.comparisons_left))",
        "The reward model is too weak to train on",
    ),
    edit(
        "answers of the first policy",
        "answers, mask = sample(policy, prompts, world, generator)",
        "answers, mask = sample(reference, prompts, world, generator)",
        "are not the policy's own",
    ),
)

BUILD = Build(
    number=21,
    slug="rlhf",
    title="a reward model, and PPO within a KL budget",
    part="aligning",
    budget=Budget(processor_seconds=240.0),
    stages=(
        PreferringStage("comparisons", PREFERRING, accuracy=0.85),
        POLICY_STAGE,
        AligningStage(
            "assistant",
            REWARDING,
            SETTINGS,
            comparisons=6000,
            tokens=200_000,
            accuracy=0.65,
            gain=0.5,
            margin=0.1,
            nats=5.0,
            results=BESIDE,
        ),
    ),
    milestones=(
        "rlhf.preference.1",
        "rlhf.last.1",
        "rlhf.rewards.1",
        "rlhf.ending.1",
        "rlhf.repair.1",
        "ppo.gae.1",
        "ppo.clip.1",
    ),
    twins=TWINS,
    not_tested=(
        "prompts of other lengths in one batch without padding, models that do not fit into "
        "memory four times, and what people prefer; nor are answers seen that a file samples and "
        "does not hand over."
    ),
)
