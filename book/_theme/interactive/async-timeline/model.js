// Samplers and a trainer as events in time: a second writing of nbkit/asynchronous/events.py.
(function (root) {
  "use strict";

  const DEVICES = 8, SLOTS = 8; // completions that a device decodes at once
  const PROMPTS = 8, GROUP_SIZE = 4, UPDATES = 12; // groups a batch, completions a group
  const MEAN = 200, LONGEST = 1200; // tokens
  const SECONDS = { token: 0.02, trainToken: 0.0025, load: 0.5, switch: 2 };
  const SCHEMES = {
    "synchronous": () => ({ staleness: 0, barrier: false, inFlight: false }),
    "one step ahead": () => ({ staleness: 1, barrier: true, inFlight: false }),
    "asynchronous": (staleness) => ({ staleness, barrier: false, inFlight: false }),
    "in flight": (staleness) => ({ staleness, barrier: false, inFlight: true }),
  };

  // A repeatable generator of numbers in [0, 1): Mulberry32.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }
  const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

  // Tokens of each completion, log-normal with a mean that does not depend on the tail.
  function drawLengths(seed, groups, tail) {
    const random = generator(seed);
    const one = () => Math.min(LONGEST, Math.max(1, Math.round(MEAN * Math.exp(tail * normal(random) - (tail * tail) / 2))));
    return Array.from({ length: groups }, () => Array.from({ length: GROUP_SIZE }, one));
  }

  // machines: {samplers, trainers, slots, token, trainToken, load}; scheme: {staleness, barrier, inFlight}.
  function simulate(lengths, prompts, machines, scheme) {
    const size = lengths[0].length, tokens = lengths.flat(), wanted = lengths.length / prompts;
    const samplers = Array.from({ length: machines.samplers }, () => ({ version: 0, ready: 0, running: new Map(), free: Array.from({ length: machines.slots }, (_, slot) => slot) }));
    const left = new Map(), finished = new Set(), ages = new Map(), spans = [], updates = [];
    let events = [], now = 0, next = 0, version = 0, training = false, numbered = 0;

    const at = (time, turn, kind, what) => events.push({ time, number: (numbered += 1), turn, kind, what });
    function note(device, one, count, end) {
      spans.push({ device, slot: one.slot, start: one.since, end, group: one.group, version: one.version, tokens: count });
      const found = ages.get(one.group) ?? new Map();
      ages.set(one.group, found.set(one.version, (found.get(one.version) ?? 0) + count));
    }
    function complete([device, one], turn) {
      if (turn !== one.turn) return; // its end was moved by a pause
      note(device, one, one.left, now);
      samplers[device].running.delete(one.slot);
      samplers[device].free.push(one.slot);
      samplers[device].free.sort((a, b) => a - b);
      left.set(one.group, left.get(one.group) - 1);
      if (left.get(one.group) === 0) { left.delete(one.group); finished.add(one.group); }
    }
    function load(device, sampler) {
      if (sampler.running.size && !scheme.inFlight) return;
      for (const one of sampler.running.values()) {
        const done = Math.min(one.left, Math.max(0, Math.ceil((now - one.since) / machines.token - 1e-9)));
        if (done === one.left) continue; // its last token is on the way
        const boundary = one.since + done * machines.token;
        if (done) note(device, one, done, boundary);
        Object.assign(one, { left: one.left - done, version, turn: one.turn + 1, since: Math.max(boundary, now) + machines.load });
        at(one.since + one.left * machines.token, one.turn, "complete", [device, one]);
      }
      sampler.version = version;
      sampler.ready = now + machines.load;
      if (machines.load) at(sampler.ready, 0, "ready", null);
    }
    function mayStart() {
      if (next === tokens.length) return false;
      const group = Math.floor(next / size);
      if (next % size) return true; // its group was admitted
      if (group >= (scheme.staleness + version + 1) * prompts) return false;
      return !(scheme.barrier && group % prompts === 0 && left.size);
    }
    function start(device) {
      const group = Math.floor(next / size), sampler = samplers[device], slot = sampler.free.shift();
      if (next % size === 0) left.set(group, size);
      const one = { group, slot, left: tokens[next], since: now, version: sampler.version, turn: 0 };
      sampler.running.set(slot, one);
      at(now + tokens[next] * machines.token, 0, "complete", [device, one]);
      next += 1;
    }
    function train() {
      const batch = Array.from({ length: prompts }, (_, place) => version * prompts + place);
      if (training || !batch.every((group) => finished.has(group))) return;
      training = true;
      let count = 0, aged = 0, oldest = 0;
      for (const group of batch) {
        finished.delete(group);
        for (const [sampled, some] of ages.get(group)) {
          count += some;
          aged += some * (version - sampled);
          oldest = Math.max(oldest, version - sampled);
        }
      }
      const end = now + (count * machines.trainToken) / machines.trainers;
      at(end, 0, "trained", { start: now, end, groups: batch, tokens: count, oldest, meanAge: aged / count });
    }
    function dispatch() {
      samplers.forEach((sampler, device) => { if (sampler.version < version && now >= sampler.ready) load(device, sampler); });
      while (mayStart()) {
        let best = -1;
        samplers.forEach((sampler, device) => {
          if (!sampler.free.length || sampler.version !== version || now < sampler.ready) return;
          if (best < 0 || sampler.free.length > samplers[best].free.length) best = device;
        });
        if (best < 0) break;
        start(best);
      }
      train();
    }
    dispatch();
    while (updates.length < wanted) {
      now = Math.min(...events.map(({ time }) => time));
      const due = events.filter(({ time }) => time === now).sort((a, b) => a.number - b.number);
      events = events.filter(({ time }) => time !== now);
      for (const { kind, turn, what } of due) {
        if (kind === "complete") complete(what, turn);
        if (kind === "trained") { updates.push(what); training = false; version += 1; }
      }
      if (updates.length < wanted) dispatch();
    }
    const busy = spans.reduce((sum, span) => sum + Math.min(span.end, now) - span.start, 0);
    const learned = updates.reduce((sum, update) => sum + update.end - update.start, 0);
    return {
      seconds: now, samplesPerSecond: (updates.length * prompts * size) / now, spans, updates,
      samplerIdle: 1 - busy / (machines.samplers * machines.slots * now), trainerIdle: 1 - learned / now,
      oldest: Math.max(...updates.map((update) => update.oldest)),
      meanAge: updates.reduce((sum, update) => sum + update.meanAge * update.tokens, 0) / updates.reduce((sum, update) => sum + update.tokens, 0),
    };
  }

  // Samples a second when all devices sample and then all train, with a switch between: by arithmetic.
  function colocated(lengths, prompts, devices) {
    let seconds = 0;
    for (let first = 0; first < lengths.length; first += prompts) {
      const batch = lengths.slice(first, first + prompts).flat();
      const sum = batch.reduce((total, one) => total + one, 0);
      seconds += SECONDS.token * Math.max(Math.max(...batch), sum / (devices * SLOTS)) + (SECONDS.trainToken * sum) / devices + SECONDS.switch * 2;
    }
    return lengths.flat().length / (seconds - SECONDS.switch);
  }

  // What the figure shows for its controls.
  function run({ scheme, tail, staleness, samplers, seed }) {
    const lengths = drawLengths(seed, PROMPTS * UPDATES, tail);
    const machines = { samplers, trainers: DEVICES - samplers, slots: SLOTS, ...SECONDS };
    const synchronous = simulate(lengths, PROMPTS, machines, SCHEMES.synchronous());
    const shown = simulate(lengths, PROMPTS, machines, SCHEMES[scheme](staleness));
    return { lengths, machines, shown, synchronous, colocated: colocated(lengths, PROMPTS, DEVICES), gain: synchronous.seconds / shown.seconds };
  }

  const model = { DEVICES, SLOTS, PROMPTS, GROUP_SIZE, UPDATES, MEAN, LONGEST, SECONDS, SCHEMES, generator, drawLengths, simulate, colocated, run };
  if (typeof module !== "undefined") module.exports = model;
  else root.asyncTimelineModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
