"""The faults of reinforce.repair.1, each put back by itself."""

from bookkit.exercises.exercise import edit, edits

FAULTS = (
    edits(
        "a flat state, joined along dim 1",
        ("torch.full((batch_size, 1), bos_id)", "torch.full((batch_size,), bos_id)"),
        ("token[:, None]], dim=1)", "token], dim=1)"),
        (".gather(1, token[:, None]).squeeze(1)", "[..., token]"),
        message="the state has one axis only, and `torch.cat` along `dim=1` needs two: keep "
        "ids as (B, t) from the start, `torch.full((batch_size, 1), bos_id)`, and "
        "join `token[:, None]`",
    ),
    edits(
        "a flat state, joined along dim 0",
        ("torch.full((batch_size, 1), bos_id)", "torch.full((batch_size,), bos_id)"),
        (".gather(1, token[:, None]).squeeze(1)", "[..., token]"),
        ("torch.cat([state, token[:, None]], dim=1)", "torch.cat([state, token])"),
        ("state[:, 1:]", "state[batch_size:].view(max_new_tokens, batch_size).T"),
        message="joining along `dim=0` stops the error but reads the whole batch as one long "
        "text: each row is conditioned on the words of the others. Keep ids as (B, t) "
        "and join along `dim=1`",
    ),
    edit(
        "log-probabilities of the first row",
        ".gather(1, token[:, None]).squeeze(1)",
        "[0, token]",
        "every token is scored by the distribution of row 0 (an index like [0, "
        "token]): each row has its own, so gather along the last axis",
    ),
    edit(
        "log-probabilities cut off",
        "(1)",
        "(1).detach()",
        "the loss has the right value but no gradient: the log-probabilities were "
        "taken under no_grad or detached while sampling",
    ),
    edits(
        "history lost",
        ("chosen = []", "chosen, written = [], []"),
        (
            "state = torch.cat([state, token[:, None]], dim=1)",
            "state = token[:, None]\n        written.append(token)",
        ),
        ("state[:, 1:]", "torch.stack(written, dim=1)"),
        message="the policy sees only the last token: the state is replaced instead of extended",
    ),
    edit(
        "stops at the first end",
        "state = torch.cat([state, token[:, None]], dim=1)",
        "state = torch.cat([state, token[:, None]], dim=1)\n"
        "        if (token == eos_id).any():\n"
        "            break",
        "the loop stops for the whole batch as soon as one text has ended: the other "
        "texts are cut off. Go on and let the mask forget what comes after an end",
    ),
    edit(
        "stops when all have ended",
        "state = torch.cat([state, token[:, None]], dim=1)",
        "state = torch.cat([state, token[:, None]], dim=1)\n"
        "        if (state[:, 1:] == eos_id).any(dim=1).all():\n"
        "            break",
        "the loop stops early when all texts have ended, which saves work, but here "
        "the result must have max_new_tokens columns: pad it, or go on",
    ),
    edit(
        "no mask",
        "mask, _ = completion_mask(tokens, eos_id)",
        "mask = torch.ones_like(tokens, dtype=torch.bool)",
        "tokens after a text's end count as well: the mask must be true up to and "
        "including the first end of sequence only",
    ),
    edit(
        "end of sequence left out",
        "mask, _ = completion_mask(tokens, eos_id)",
        "mask = (tokens == eos_id).cumsum(dim=1) == 0",
        "your mask is shifted by one: the end-of-sequence token itself must count",
    ),
    edits(
        "mask not used in the loss",
        ("to_go(rewards, mask", "to_go(rewards, torch.ones_like(mask)"),
        ("weights, mask)", "weights, torch.ones_like(mask))"),
        message="the mask is right but the loss does not use it: tokens after a text's end, "
        "and what reward_fn pays there, still enter",
    ),
    edit(
        "rewards after the end",
        "to_go(rewards, mask",
        "to_go(rewards, torch.ones_like(mask)",
        "what reward_fn pays after a text's end enters the returns of the tokens "
        "before it: mask the rewards before they are summed",
    ),
    edits(
        "returns not detached",
        (".detach()", ""),
        (
            "reinforce_loss(logprobs, weights, mask)",
            "-torch.where(mask, weights * logprobs, 0.0).sum(dim=1).mean()",
        ),
        message="the value is right, but a gradient flows through the returns: where the "
        "reward holds log-probabilities it must be detached",
    ),
    edit(
        "returns standardised within a text",
        "gamma=1.0)",
        "gamma=1.0)\n"
        "    weights = weights - weights.mean(dim=1, keepdim=True)\n"
        "    weights = weights / weights.std(dim=1, keepdim=True)",
        "the returns of each text are standardised by their own mean and standard "
        "deviation: for a text of one token that is 0/0 = nan, and elsewhere it "
        "replaces what was earned by the order of the tokens. Leave it out",
    ),
    edit(
        "whole return",
        "reward_to_go(rewards, mask, gamma=1.0)",
        "torch.where(mask, rewards, 0.0).sum(dim=1, keepdim=True).expand_as(rewards)",
        "every token is weighted with the whole return: reward to go leaves out what "
        "was paid before it",
    ),
    edit(
        "minus sign missing",
        "reinforce_loss(",
        "-reinforce_loss(",
        "the sign of the loss is wrong: an optimiser descends, so put a minus in front",
    ),
    edit(
        "sum over the batch",
        "reinforce_loss(",
        "batch_size * reinforce_loss(",
        "the loss is the sum over the texts; divide by their number",
    ),
    edit(
        "mean over tokens",
        "reinforce_loss(logprobs, weights, mask)",
        "batch_size / mask.sum() * reinforce_loss(logprobs, weights, mask)",
        "the loss is divided by the number of counted tokens; divide by the number of texts",
    ),
    edit(
        "stacked along dim 0",
        "torch.stack(chosen, dim=1)",
        "torch.stack(chosen, dim=0)",
        "log-probabilities stacked along dim 0 are (T, B), while tokens and rewards "
        "are (B, T): an error if the two differ, and silently wrong if they are "
        "equal. Stack along `dim=1`",
    ),
    edit(
        "bos_id not used",
        "1), bos_id)",
        "1), 0)",
        "every text begins with token 0 whatever `bos_id` says: another tokenizer has another BOS",
    ),
    edit(
        "eos_id not used",
        "completion_mask(tokens, eos_id)",
        "completion_mask(tokens, 1)",
        "token 1 ends a text whatever `eos_id` says: another tokenizer has another EOS",
    ),
    edit(
        "BOS taken for an end",
        "mask, _ = completion_mask(tokens, eos_id)",
        "mask = completion_mask(state, eos_id)[0][:, 1:]",
        "the mask looks for an end in the BOS as well: some tokenizers use one token "
        "for both, and then no text has a token. Look at the new tokens only",
    ),
    edit(
        "sampling from probabilities",
        "(state)",
        "(state).softmax(-1)",
        "`sample` is given probabilities; it takes logits: a softmax of probabilities "
        "is nearly uniform. Hand over what `policy` returned",
    ),
    edit(
        "sampling from the first row",
        "sample(logits)",
        "sample(logits[0])",
        "`sample` is given the logits of one text only: hand over all of them, (B, "
        "V), so that each text draws from its own distribution",
    ),
    edit(
        "reward_fn told that everything counts",
        "logprobs, mask).detach",
        "logprobs, torch.ones_like(mask)).detach",
        "`reward_fn` is given a mask of ones, so a reward that depends on a text's "
        "length or on its last token looks past the end: give it the mask that you "
        "return",
    ),
    edit(
        "reward_fn given the opposite mask",
        "logprobs, mask).detach",
        "logprobs, ~mask).detach",
        "`reward_fn` is given the mask upside down: true must mean that a token counts",
    ),
)
