"""Best of what differs: only different answers are marked, and the better ones are learned."""

import torch

PROBLEMS, ANSWERS, ROUNDS = 96, 6, 70
STEPS, BATCH, LEARNING_RATE = 5, 64, 5e-4  # steps of supervised learning a round
REPLAY = 10  # epochs over all that is known, once the tokens are spent


@torch.no_grad()
def sample(pupil, prompts, world, generator):
    """Answers of the pupil as it is: ids (B, T), and a mask that ends with the EOS."""
    state = None
    for place in range(prompts.shape[1]):
        logits, state = pupil.step(prompts[:, place], state)
    running, ids, mask = torch.ones(len(prompts), dtype=torch.bool), [], []
    for place in range(world.max_new_tokens):
        tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        tokens = torch.where(running, tokens, world.pad_id)
        ids.append(tokens)
        mask.append(running)
        running = running & (tokens != world.eos_id)
        if place + 1 < world.max_new_tokens:
            logits, state = pupil.step(tokens, state)
    return torch.stack(ids, 1), torch.stack(mask, 1)


def logprobs_of(pupil, prompts, ids):
    """Log-probability of every token of the answers, (B, T)."""
    logits = pupil(torch.cat([prompts, ids[:, :-1]], 1))[:, prompts.shape[1] - 1 :]
    return logits.log_softmax(-1).gather(-1, ids[:, :, None])[:, :, 0]


class Memory:
    """Answers to learn from: better ones by their marks, and those that the pupil is sure of."""

    def __init__(self):
        self.rows = {}

    def put(self, number, prompt, ids, mask):
        """Keep an answer to a problem, in place of an older one."""
        self.rows[number] = (prompt, ids, mask)

    def drawn(self, count, generator):
        """Some rows (count, P), (count, T), (count, T), with replacement."""
        rows = list(self.rows.values())
        picked = torch.randint(len(rows), (count,), generator=generator).tolist()
        return tuple(torch.stack(column) for column in zip(*(rows[i] for i in picked), strict=True))


def different(ids, mask):
    """Of the answers (A, T) to one problem: the place of one copy of each different one."""
    places = {tuple(row): place for place, row in enumerate(ids.tolist())}
    return sorted(places.values())


def ask(pupil, world, known, sure, generator):
    """Sample answers, have the different ones marked, and keep what is better; False: no tokens."""
    numbers, prompts = world.problems(PROBLEMS)
    many = prompts.repeat_interleave(ANSWERS, 0)
    ids, mask = (x.view(PROBLEMS, ANSWERS, -1) for x in sample(pupil, many, world, generator))
    for row, number in enumerate(numbers.tolist()):
        places = different(ids[row], mask[row])
        if number in known.rows:
            continue
        if len(places) == 1:  # nothing to compare: it costs nothing, and keeps what is known
            sure.put(number, prompts[row], ids[row, 0], mask[row, 0])
            continue
        if mask[row, places].sum() > world.tokens_left:
            return False
        marks = world.score(ids[row, places], numbers[row].expand(len(places)))
        if marks.max() - marks.min() > 0.5:
            best = places[int(marks.argmax())]
            known.put(number, prompts[row], ids[row, best], mask[row, best])
            sure.rows.pop(number, None)
    return True


def learn(pupil, optimiser, memories, generator):
    """A step of supervised learning on rows of each memory."""
    loss = 0.0
    for memory in memories:
        if memory.rows:
            prompts, ids, mask = memory.drawn(BATCH, generator)
            loss = loss - (logprobs_of(pupil, prompts, ids) * mask).sum() / mask.sum()
    if memories[0].rows:
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
        optimiser.step()


def train(pupil, world, *, seed, log):
    """Train the pupil to be right on sums that it has not seen; return it."""
    generator = torch.Generator().manual_seed(seed)
    pupil.requires_grad_(True)
    optimiser = torch.optim.Adam(pupil.parameters(), lr=LEARNING_RATE)
    known, sure = Memory(), Memory()
    for _ in range(ROUNDS):
        if not ask(pupil, world, known, sure, generator):
            break
        for _ in range(STEPS):
            learn(pupil, optimiser, (known, sure), generator)
        log(known=len(known.rows), sure=len(sure.rows))
    for _ in range(REPLAY * len(known.rows) // BATCH):
        learn(pupil, optimiser, (known, sure), generator)
    return pupil
