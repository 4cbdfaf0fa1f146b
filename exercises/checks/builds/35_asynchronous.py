"""The judge of build 35: every group once, none too stale, every step the right one."""

from bookkit.builds.limits import Budget
from bookkit.builds.overlapping import OverlapStage
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

SETTINGS = {"batch": 4, "learning_rate": 1.0, "cap": 1.2}
RULE = "allowed = min(settings.groups, (settings.staleness + version + 1) * settings.batch)"
DUE = "due = range(version * settings.batch, (version + 1) * settings.batch)"
READY = "if all(number in finished for number in due):"
TWINS = (
    edit(
        "everything at once",
        RULE,
        "allowed = settings.groups",
        "the staleness is",
    ),
    edits(
        "in the order of the ends",
        (DUE, "due = list(finished)[: settings.batch]"),
        (READY, "if len(due) == settings.batch:"),
        message="the staleness is",
    ),
    edit(
        "one batch at a time",
        RULE,
        "allowed = (version + 1) * settings.batch",
        "It does not overlap",
    ),
    edit(
        "what was lost is not asked again",
        "            for number in event.lost:\n                world.start(number)\n",
        "            pass\n",
        "would wait for ever",
    ),
    edit(
        "no weights after the restart",
        "            world.publish(policy, version, [])\n            for",
        "            for",
        "on a generator without weights",
    ),
    edit(
        "what was lost is asked twice",
        "for number in event.lost:",
        "for number in event.lost + event.lost[:1]:",
        "while it is still under way",
    ),
    edits(
        "a batch is trained on twice",
        (
            "            version += 1\n            world.publish(policy, version, due)\n",
            "            version += 1\n            world.publish(policy, version, due)\n"
            "            if version == 3:\n"
            "                update(policy, groups, settings)\n"
            "                version += 1\n"
            "                world.publish(policy, version, due)\n",
        ),
        message="was trained twice",
    ),
    edit(
        "a version too many",
        "            version += 1\n            world.publish(policy, version, due)\n",
        "            version += 1\n            world.publish(policy, version + 1, due)\n",
        "was published after version",
    ),
    edit(
        "no importance weights",
        "(logp.detach() - group.logp).exp().clamp(max=settings.cap)",
        "torch.ones_like(logp)",
        "The importance weights are missing",
    ),
    edit(
        "weights without a cap",
        ".clamp(max=settings.cap)",
        "",
        "The importance weights are not truncated",
    ),
    edits(
        "a mean over groups",
        (
            "total = total + torch.where(group.mask, losses, 0.0).sum()",
            "total = total + torch.where(group.mask, losses, 0.0).sum() / group.mask.sum()",
        ),
        ("count += group.mask.sum()", "count += 1"),
        message="A mean over the groups' means",
    ),
    edit(
        "no baseline",
        "(group.rewards - group.rewards.mean())",
        "group.rewards",
        "There is no baseline",
    ),
    edits(
        "no mask",
        ("torch.where(group.mask, losses, 0.0).sum()", "losses.sum()"),
        ("count += group.mask.sum()", "count += group.mask.numel()"),
        message="The mask is not used",
    ),
    edit(
        "the last batch is left out",
        "while version < settings.updates:",
        "while version < settings.updates - 1:",
        "were never trained",
    ),
)

BUILD = Build(
    number=35,
    slug="asynchronous",
    title="asynchronous GRPO",
    part="asynchronous",
    budget=Budget(processor_seconds=60.0),
    stages=(
        OverlapStage("staleness 0", {**SETTINGS, "updates": 6, "staleness": 0}),
        OverlapStage(
            "staleness 2, and a generator that is killed",
            {**SETTINGS, "updates": 60, "staleness": 2},
            killed=True,
            share_of_ticks=0.75,
            threshold=0.42,
        ),
    ),
    milestones=(
        "async.queue.1",
        "async.versions.1",
        "async.capacity.1",
        "async.decoupled.1",
        "async.journal.1",
        "async.denominator.1",
    ),
    twins=TWINS,
    not_tested="speed, for the generator's clock counts ticks; and a trainer that is killed.",
)
