"""The faults of ppo.repair.1, each put back by itself."""

from bookkit.exercises.exercise import edit, edits

FAULTS = (
    edit(
        "a truncation is a death",
        "rollout.terminated",
        "rollout.done",
        "`done` stops the bootstrap: an episode that was cut off is then worth "
        "nothing from there on. Only `terminated` replaces the next value by 0",
    ),
    edit(
        "the trace leaks",
        "rollout.done",
        "rollout.terminated",
        "the trace runs over a truncation into the next episode: it stops wherever `done` is true",
    ),
    edit(
        "dummy rows in the loss",
        "weights = advantages[rollout.valid]\n"
        "    weights = normalise(weights, torch.ones_like(weights, dtype=torch.bool))",
        "weights = normalise(advantages.flatten(), rollout.valid.flatten())\n"
        '    rollout = Recorded(**{**vars(rollout), "valid": '
        "torch.ones_like(rollout.valid)})",
        "dummy rows enter the loss: their action was ignored, so nothing is to be "
        "learned from them. Select the valid rows before anything is averaged",
    ),
    edit(
        "dummy rows in the normaliser",
        "weights = normalise(weights, torch.ones_like(weights, dtype=torch.bool))",
        "everything = torch.ones_like(rollout.valid).flatten()\n"
        "    weights = normalise(advantages.flatten(), "
        "everything)[rollout.valid.flatten()]",
        "dummy rows enter mean and standard deviation of the advantages: normalise "
        "the valid rows alone",
    ),
    edits(
        "dummy rows not cleared",
        ("torch.where(rollout.valid, advantages, 0.0)", "advantages"),
        ("torch.where(rollout.valid, returns, 0.0)", "returns"),
        message="advantages and returns of dummy rows are not 0: nobody may use them by accident",
    ),
    edit(
        "normalised before the returns",
        "returns = torch.where(rollout.valid, returns, 0.0)",
        "advantages = normalise(advantages.flatten(), "
        "rollout.valid.flatten()).view_as(returns)\n"
        "    returns = torch.where(rollout.valid, advantages + rollout.values, 0.0)",
        "the advantages are normalised before the returns are formed, so the critic's "
        "targets are its own values plus noise of size 1: form the returns from the "
        "raw advantages",
    ),
    edit(
        "not normalised",
        "weights = normalise(weights, torch.ones_like(weights, dtype=torch.bool))\n    ",
        "",
        "the advantages enter the loss as they are; normalise them over the valid rows",
    ),
    edit(
        "the ratio is always 1",
        "rollout.logprobs[rollout.valid]",
        "chosen.detach()",
        "the old log-probabilities are those of the current policy, so the ratio is 1 "
        "for ever and nothing is clipped: use those noted while acting, "
        "`rollout.logprobs`",
    ),
    edit(
        "ratio upside down",
        "chosen, rollout.logprobs",
        "-chosen, -rollout.logprobs",
        "the ratio is old over new; it is exp(new - old)",
    ),
    edit(
        "the larger of the two",
        "clip_loss(chosen, rollout.logprobs[rollout.valid], weights, clip)",
        "-clip_loss(chosen, rollout.logprobs[rollout.valid], -weights, clip)",
        "the larger of the two surrogates is taken: PPO is a pessimist and takes the smaller",
    ),
    edit(
        "only the clipped ratio",
        "policy_loss = clip_loss(chosen, rollout.logprobs[rollout.valid], weights, clip)",
        "ratio = (chosen - rollout.logprobs[rollout.valid]).exp()\n"
        "    policy_loss = -(ratio.clamp(1 - clip, 1 + clip) * weights).mean()",
        "only the clipped ratio is used, so an action that moved the harmful way is "
        "not brought back: take the smaller of the clipped and the free surrogate",
    ),
    edit(
        "values against returns, all pairs",
        "values.squeeze(-1) -",
        "values -",
        "values (B, 1) minus returns (B,) is broadcast to (B, B): every value is "
        "compared with every return, and the critic learns their mean. Take the last "
        "axis away first",
    ),
    edit(
        "entropy punished",
        "- entropy_coefficient",
        "+ entropy_coefficient",
        "the entropy is added to the loss, so the policy is paid for certainty: a "
        "bonus is subtracted from a loss",
    ),
    edit(
        "critic detached",
        "values.squeeze(-1) -",
        "values.squeeze(-1).detach() -",
        "the critic's values are detached in its own loss, so it never learns: there "
        "the returns are the constants",
    ),
    edit(
        "no half",
        "0.5 * ",
        "",
        "the critic's square is not halved: its loss is ½ (value - return)²",
    ),
    edit(
        "sum over the rows",
        "return advantages, returns, loss",
        "return advantages, returns, loss * len(weights)",
        "the loss is the sum over the rows; take the mean",
    ),
    edit(
        "advantages as targets",
        "- returns[rollout.valid]",
        "- advantages[rollout.valid]",
        "the critic is fitted to the advantages; its target is the return, advantage plus value",
    ),
    edit(
        "value coefficient not used",
        "value_coefficient * value_loss",
        "value_loss",
        "`value_coefficient` has no effect: it weighs the critic's loss",
    ),
    edit(
        "log-probabilities of the first row",
        ".gather(1, rollout.actions[rollout.valid][:, None]).squeeze(1)",
        "[0, rollout.actions[rollout.valid]]",
        "every action is scored by the distribution of row 0 (an index like [0, "
        "action]): gather along the last axis",
    ),
)
