"""The judge of build 32: two processes that end where one does."""

from bookkit.builds.limits import Budget
from bookkit.builds.splitting import SplitStage
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

SETTINGS = {"steps": 20, "learning_rate": 0.2, "momentum": 0.9, "max_grad_norm": 1.0}
TOTAL = "total = world.all_reduce(local)\n"
DIVIDED = "total[:-1] / total[-1]"
SUM = "loss = (losses * mask.flatten()).sum()"
TWINS = (
    edits(
        "mean of means",
        (SUM, f"{SUM} / mask.sum().clamp(min=1)"),
        (DIVIDED, "total[:-1] / world.size"),
        message="A mean of means",
    ),
    edits(
        "sum of means",
        (SUM, f"{SUM} / mask.sum().clamp(min=1)"),
        (DIVIDED, "total[:-1]"),
        message="A sum of means",
    ),
    edit("never divided", DIVIDED, "total[:-1]", "is not divided by the number of tokens"),
    edit("divided twice", DIVIDED, f"{DIVIDED} / world.size", "once too often"),
    edits(
        "clip before the sum",
        (
            "        gradients = [parameter.grad for parameter in parameters]\n",
            "        for parameter in parameters:\n"
            "            parameter.grad /= world.all_reduce(mask.sum().view(1))\n"
            "        torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)\n"
            "        gradients = [parameter.grad for parameter in parameters]\n",
        ),
        (DIVIDED, "total[:-1]"),
        (
            "clip_grad_norm_(parameters, settings.max_grad_norm)\n        optimiser",
            "get_total_norm(gradients)\n        optimiser",
        ),
        message="Each rank clips its own gradient before the sum",
    ),
    edit(
        "no clip",
        "clip_grad_norm_(parameters, settings.max_grad_norm)",
        "get_total_norm(gradients)",
        "The gradient is not clipped",
    ),
    edits(
        "no mask",
        ("(losses * mask.flatten()).sum()", "losses.sum()"),
        (
            "*(g.flatten() for g in gradients), mask.sum()",
            "*(g.flatten() for g in gradients), y.new_tensor(y.numel())",
        ),
        message="The mask is not used",
    ),
    edit(
        "ranks begin apart",
        "copy_back(world.broadcast(flat), [parameter.data for parameter in parameters])",
        "world.broadcast(flat)",
        "they did not begin with those of rank 0",
    ),
    edit("nothing is summed", DIVIDED, "local[:-1] / total[-1]", "not every gradient was summed"),
    edit(
        "a collective on one rank",
        TOTAL,
        "total = world.all_reduce(local) if mask.sum() > 0 else local\n",
        "for ever",
    ),
    edit(
        "a rank without tokens divides by 0",
        "copy_back(total[:-1] / total[-1], gradients)",
        "copy_back(world.all_reduce(local[:-1] / local[-1]) / world.size, gradients)",
        "a rank may have no token in a step",
    ),
    edit(
        "a message for each parameter",
        TOTAL,
        "total = torch.cat([world.all_reduce(part) for part in local.split(64)])\n",
        "put the gradients of all parameters into one message",
    ),
)

BUILD = Build(
    number=32,
    slug="data_parallel",
    title="data parallel training",
    part="parallel",
    budget=Budget(processor_seconds=60.0),
    stages=(SplitStage("two processes", SETTINGS, ranks=2, messages=3),),
    milestones=("ddp.ring.1", "ddp.buckets.1", "ddp.tokens.1"),
    twins=TWINS,
    not_tested="speed, for the judge carries the messages; and that only gradients travel.",
)
