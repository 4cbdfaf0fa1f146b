"""A small event simulation of samplers and a trainer: no processes, only arithmetic about machines.

Events are kept in a heap by time. After each moment three questions are asked: which samplers take
new weights, which slots begin a completion, and whether the trainer has a batch.
"""

import heapq
import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nbkit.asynchronous.bounds import in_batches
from nbkit.asynchronous.machines import (
    Machines,
    Scheme,
    pause_seconds,
    sampling_devices,
    training_devices,
    training_seconds,
)
from nbkit.asynchronous.outcome import Outcome, Span, Update


def simulate(
    lengths: NDArray[np.int64],
    prompts: int,
    machines: Machines,
    scheme: Scheme,
    *,
    updates: int | None = None,
) -> Outcome:
    """Run a scheme on completions of given lengths until its last update is done.

    Args:
        lengths: (groups, group_size) tokens, in the order in which groups are started.
        prompts: groups a batch.
        machines: the devices and their seconds.
        scheme: the rule.
        updates: how many; None: until all groups are trained. With fewer, the samplers are still
            at work at the end, as they are in the middle of a long run.

    Raises:
        ValueError: groups that do not fill the last batch, lengths below 1, or more updates than
            batches.

    """
    batches = len(in_batches(lengths, prompts))
    if lengths.min() < 1:
        raise ValueError(f"lengths must be at least 1 token; got {lengths.min()}")
    wanted = batches if updates is None else updates
    if not 1 <= wanted <= batches:
        raise ValueError(f"updates must lie in [1, {batches}], the batches there are; got {wanted}")
    run = _Run(lengths, prompts, machines, scheme, wanted)
    while len(run.updates) < wanted:
        run.advance()
    return run.outcome()


@dataclass
class _Completion:
    """One that is being decoded: `left` tokens from the moment `since` on."""

    group: int
    slot: int
    left: int
    since: float
    version: int
    turn: int = 0  # counts changes of its end, so that an old event is known
    versions: set[int] = field(default_factory=set)  # of the tokens that are noted


class _Sampler:
    """A device: its weights, its running completions by slot, and when it is ready again."""

    def __init__(self, slots: int) -> None:
        self.version, self.ready = 0, 0.0
        self.running: dict[int, _Completion] = {}
        self.free = list(range(slots))  # a heap


class _Run:
    def __init__(
        self,
        lengths: NDArray[np.int64],
        prompts: int,
        machines: Machines,
        scheme: Scheme,
        wanted: int,
    ) -> None:
        self.lengths, self.group_size = lengths.ravel().tolist(), lengths.shape[1]
        self.prompts, self.machines, self.scheme, self.wanted = prompts, machines, scheme, wanted
        self.pause = pause_seconds(machines, scheme)
        self.samplers = [
            _Sampler(machines.slots) for _ in range(sampling_devices(machines, scheme))
        ]
        self.now, self.next, self.version = 0.0, 0, 0
        self.training: tuple[int, ...] = ()  # groups of the update that runs
        self.trained: set[int] = set()
        self.left: dict[int, int] = {}  # completions that a started group still lacks
        self.finished: deque[int] = deque()  # groups in the order of their last token
        self.ages: dict[int, Counter[int]] = defaultdict(Counter)  # tokens by version, a group
        self.mixed = 0  # most versions in a completion that is done
        self.spans: list[Span] = []
        self.updates: list[Update] = []
        self.events: list[tuple[float, int, int, object]] = []
        self.numbered = 0
        self.dispatch()

    def at(self, time: float, turn: int, what: object) -> None:
        self.numbered += 1
        heapq.heappush(self.events, (time, self.numbered, turn, what))

    def advance(self) -> None:
        """Go to the next moment, note all that ends then, and begin what may begin."""
        self.now = self.events[0][0]
        while self.events and self.events[0][0] == self.now:
            _, _, turn, what = heapq.heappop(self.events)
            if isinstance(what, tuple):
                sampler, completion = what
                self.complete(sampler, completion, turn)
            elif isinstance(what, Update):
                self.updates.append(what)
                self.training, self.version = (), self.version + 1
        if len(self.updates) < self.wanted:
            self.dispatch()

    def complete(self, sampler: int, completion: _Completion, turn: int) -> None:
        if turn != completion.turn:
            return  # its end was moved by a pause
        self.note(sampler, completion, completion.left, self.now)
        self.mixed = max(self.mixed, len(completion.versions))
        device = self.samplers[sampler]
        del device.running[completion.slot]
        heapq.heappush(device.free, completion.slot)
        self.left[completion.group] -= 1
        if not self.left[completion.group]:
            del self.left[completion.group]
            self.finished.append(completion.group)

    def note(self, sampler: int, one: _Completion, tokens: int, end: float) -> None:
        """Write down tokens that one version decoded."""
        self.spans.append(Span(sampler, one.slot, one.since, end, one.group, one.version, tokens))
        self.ages[one.group][one.version] += tokens
        one.versions.add(one.version)

    def dispatch(self) -> None:
        for number, sampler in enumerate(self.samplers):
            if sampler.version < self.version and self.now >= sampler.ready:
                self.load(number, sampler)
        while self.may_start():
            open_ones = [
                (-len(sampler.free), number)
                for number, sampler in enumerate(self.samplers)
                if sampler.free and sampler.version == self.version and self.now >= sampler.ready
            ]
            if not open_ones:
                break
            self.start(min(open_ones)[1])  # the emptiest device
        self.train()

    def load(self, number: int, sampler: _Sampler) -> None:
        """Give a sampler the newest weights, now if it may take them in flight or is empty."""
        if sampler.running and not self.scheme.in_flight:
            return
        seconds = self.machines.token_seconds
        for one in sampler.running.values():
            begun = math.ceil((self.now - one.since) / seconds - 1e-9)  # by the old weights
            done = min(one.left, max(0, begun))
            if done == one.left:
                continue  # its last token is on the way
            boundary = one.since + done * seconds
            if done:
                self.note(number, one, done, boundary)
            one.left, one.version, one.turn = one.left - done, self.version, one.turn + 1
            one.since = max(boundary, self.now) + self.pause
            self.at(one.since + one.left * seconds, one.turn, (number, one))
        sampler.version, sampler.ready = self.version, self.now + self.pause
        if self.pause:
            self.at(sampler.ready, 0, "ready")

    def may_start(self) -> bool:
        """Whether the rule admits the next completion."""
        if self.next == len(self.lengths) or (self.scheme.shared and self.training):
            return False
        group, member = divmod(self.next, self.group_size)
        if member:
            return True  # its group was admitted
        if group >= (self.scheme.staleness + self.version + 1) * self.prompts:
            return False
        return not (self.scheme.barrier and group % self.prompts == 0 and self.left)

    def start(self, number: int) -> None:
        group, member = divmod(self.next, self.group_size)
        if not member:
            self.left[group] = self.group_size
        sampler = self.samplers[number]
        slot, tokens = heapq.heappop(sampler.free), self.lengths[self.next]
        one = _Completion(group, slot, tokens, self.now, sampler.version)
        sampler.running[slot] = one
        self.next += 1
        self.at(self.now + tokens * self.machines.token_seconds, 0, (number, one))

    def train(self) -> None:
        if self.training:
            return
        if self.scheme.order == "finished":
            if len(self.finished) < self.prompts:
                return
            batch = tuple(self.finished.popleft() for _ in range(self.prompts))
        else:
            first = self.version * self.prompts
            batch = tuple(range(first, first + self.prompts))
            if not set(batch) <= set(self.finished):
                return
            self.finished = deque(group for group in self.finished if group not in batch)
        self.training = batch
        self.trained.update(batch)
        ages: Counter[int] = Counter()
        for group in batch:
            for version, tokens in self.ages.pop(group).items():
                ages[self.version - version] += tokens
        start = self.now + (self.machines.switch_seconds if self.scheme.shared else 0.0)
        end = start + training_seconds(ages.total(), self.machines, self.scheme)
        self.at(end, 0, Update(start, end, batch, ages.total(), ages))

    def outcome(self) -> Outcome:
        end = self.now
        for number, sampler in enumerate(self.samplers):
            for one in sampler.running.values():
                done = int((end - one.since) / self.machines.token_seconds + 1e-9)
                if done > 0:
                    self.note(number, one, min(done, one.left), end)
        slots = len(self.samplers) * self.machines.slots
        busy = sum(min(span.end, end) - span.start for span in self.spans)
        learned = sum(update.end - update.start for update in self.updates)
        trainers = training_devices(self.machines, self.scheme)
        devices = self.machines.samplers + self.machines.trainers
        worked = busy / self.machines.slots + learned * trainers
        return Outcome(
            seconds=end,
            completions=len(self.trained) * self.group_size,
            updates=tuple(self.updates),
            spans=tuple(self.spans),
            waiting=frozenset(self.finished),
            running=frozenset(self.left),
            sampler_idle=1 - busy / (slots * end),
            trainer_idle=1 - learned / end,
            device_idle=1 - worked / (devices * end),
            versions_in_completion=self.mixed,
        )
