"""Every variant's advantages and loss, written a second time: loops over Python floats."""

import math


def advantages(name, rewards, lengths, size, kl):
    """One list a row. `kl` is k1 of each token, already times its coefficient."""
    rows = range(len(rewards))
    if name == "reinforce++":
        out = []
        for i in rows:
            togo, behind = [], rewards[i]
            for t in reversed(range(lengths[i])):
                behind -= kl[i][t]
                togo.insert(0, behind)
            out.append(togo)
        flat = [x for row in out for x in row]
        mean = sum(flat) / len(flat)
        std = math.sqrt(sum((x - mean) ** 2 for x in flat) / (len(flat) - 1))
        return [[(x - mean) / (std + 1e-8) for x in row] for row in out]
    out = []
    for i in rows:
        group = range(i // size * size, i // size * size + size)
        paid = {j: rewards[j] - (sum(kl[j]) if name == "rloo" else 0.0) for j in group}
        if name == "rloo":
            a = paid[i] - sum(paid[j] for j in group if j != i) / (size - 1)
        else:
            mean = sum(paid.values()) / size
            a = paid[i] - mean
            if name != "dr_grpo":
                std = math.sqrt(sum((x - mean) ** 2 for x in paid.values()) / (size - 1))
                a = a / (std + 1e-4) if std else 0.0
        out.append([a] * lengths[i])
    return out


def loss(name, logp, old, ref, adv, lengths, limit, beta):
    """The number that is minimised."""
    rows = range(len(lengths))
    per_row = []
    for i in rows:
        terms = []
        steps = range(lengths[i])
        mean_ratio = math.exp(sum(logp[i][t] - old[i][t] for t in steps) / lengths[i])
        for t in steps:
            r, a = math.exp(logp[i][t] - old[i][t]), adv[i][t]
            if name == "rloo":
                terms.append(-a * logp[i][t])
            elif name == "cispo":
                terms.append(-min(r, 5.0) * a * logp[i][t])
            else:
                low, high = {"dapo": (0.8, 1.28), "gspo": (1 - 3e-4, 1 + 4e-4)}.get(
                    name, (0.8, 1.2)
                )
                r = mean_ratio if name == "gspo" else r
                term = -min(r * a, min(max(r, low), high) * a)
                if name == "grpo":
                    d = logp[i][t] - ref[i][t]
                    term += beta * (math.exp(-d) - 1 + d)
                terms.append(term)
        per_row.append(terms)
    total = sum(sum(terms) for terms in per_row)
    if name in ("dapo", "cispo", "reinforce++"):
        return total / sum(lengths)
    if name == "dr_grpo":
        return total / (len(per_row) * limit)
    if name == "rloo":
        return total / len(per_row)
    return sum(sum(terms) / len(terms) for terms in per_row) / len(per_row)
