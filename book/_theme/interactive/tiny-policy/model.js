// A world of five-word reviews, small enough to know everything about it, and a policy that trains in it.
// The policy is paid by a proxy (how often it says "great"); the gold reward, which it never sees, wants a
// review that is positive and says something. Both are in [0, 1].
(function (root) {
  "use strict";

  const WORDS = ["great", "cast", "plot", "dull"];
  const LENGTH = 5;
  const GREAT = 0;
  const START = WORDS.length; // the state before the first word
  // The reference model: probabilities of the next word, one row a previous word, the last row for the start.
  const REFERENCE = [
    [0.10, 0.40, 0.40, 0.10],
    [0.15, 0.15, 0.40, 0.30],
    [0.15, 0.40, 0.15, 0.30],
    [0.05, 0.40, 0.40, 0.15],
    [0.10, 0.40, 0.40, 0.10],
  ];

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

  const proxyReward = (words) => words.filter((word) => word === GREAT).length / LENGTH;
  const goldReward = (words) => (words.includes(GREAT) ? new Set(words).size / WORDS.length : 0);

  function softmax(logits) {
    const top = Math.max(...logits);
    const weights = logits.map((logit) => Math.exp(logit - top));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  }

  // Logits by place, previous word and next word: enough to hold the best policy for the proxy exactly.
  function referencePolicy() {
    return Array.from({ length: LENGTH }, () => REFERENCE.map((row) => row.map(Math.log)));
  }

  const probabilities = (policy) => policy.map((rows) => rows.map(softmax));

  function sample(table, random) {
    const words = [];
    let previous = START;
    for (let place = 0; place < LENGTH; place += 1) {
      let left = random();
      let word = 0;
      while (word < WORDS.length - 1 && left >= table[place][previous][word]) left -= table[place][previous][word++];
      words.push(word);
      previous = word;
    }
    return words;
  }

  function allSequences() {
    let sequences = [[]];
    for (let place = 0; place < LENGTH; place += 1) sequences = sequences.flatMap((start) => WORDS.map((_, word) => [...start, word]));
    return sequences;
  }
  const SEQUENCES = allSequences();

  function logProbability(table, words) {
    let previous = START, total = 0;
    words.forEach((word, place) => { total += Math.log(table[place][previous][word]); previous = word; });
    return total;
  }
  const REFERENCE_TABLE = probabilities(referencePolicy());
  const REFERENCE_LOG = SEQUENCES.map((words) => logProbability(REFERENCE_TABLE, words));
  const PROXY = SEQUENCES.map(proxyReward);
  const GOLD = SEQUENCES.map(goldReward);

  function summarise(logs) {
    // Exact means over all sequences, given the log-probability of each.
    let proxy = 0, gold = 0, kl = 0;
    logs.forEach((log, at) => {
      const weight = Math.exp(log);
      proxy += weight * PROXY[at];
      gold += weight * GOLD[at];
      kl += weight > 0 ? weight * (log - REFERENCE_LOG[at]) : 0;
    });
    return { proxy, gold, kl };
  }

  // Mean proxy, mean gold and KL to the reference (nats a sequence) of a policy: exact, by enumeration.
  function evaluate(policy) {
    const table = probabilities(policy);
    return summarise(SEQUENCES.map((words) => logProbability(table, words)));
  }

  // The same for the policy that maximises proxy - beta KL: the reference tilted by exp(proxy / beta).
  function optimum(beta) {
    const logs = REFERENCE_LOG.map((log, at) => log + PROXY[at] / beta);
    const top = Math.max(...logs);
    const shift = top + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - top), 0));
    return summarise(logs.map((log) => log - shift));
  }

  // One estimate of the policy gradient of E[proxy] - beta KL: REINFORCE with reward-to-go, and for each
  // place the mean over the batch as baseline (scaled by n/(n-1), which keeps the estimate unbiased).
  function gradient(policy, beta, batch, random) {
    const table = probabilities(policy);
    const sequences = Array.from({ length: batch }, () => sample(table, random));
    const toGo = sequences.map((words) => {
      const rewards = words.map((word, place) => {
        const previous = place ? words[place - 1] : START;
        const ratio = Math.log(table[place][previous][word] / REFERENCE[previous][word]);
        return (word === GREAT ? 1 / LENGTH : 0) - beta * ratio;
      });
      for (let place = LENGTH - 2; place >= 0; place -= 1) rewards[place] += rewards[place + 1];
      return rewards;
    });
    const result = policy.map((rows) => rows.map((row) => row.map(() => 0)));
    for (let place = 0; place < LENGTH; place += 1) {
      const baseline = toGo.reduce((sum, rewards) => sum + rewards[place], 0) / batch;
      sequences.forEach((words, at) => {
        const previous = place ? words[place - 1] : START;
        const advantage = ((toGo[at][place] - baseline) * batch) / (batch - 1);
        for (let word = 0; word < WORDS.length; word += 1) {
          const score = (word === words[place] ? 1 : 0) - table[place][previous][word];
          result[place][previous][word] += (advantage * score) / batch;
        }
      });
    }
    return result;
  }

  // One step of gradient ascent, in place.
  function trainStep(policy, { beta, batch, rate, random }) {
    const step = gradient(policy, beta, batch, random);
    policy.forEach((rows, place) => rows.forEach((row, previous) => row.forEach((_, word) => { row[word] += rate * step[place][previous][word]; })));
  }

  const model = { WORDS, LENGTH, REFERENCE, generator, proxyReward, goldReward, referencePolicy, probabilities, sample, evaluate, optimum, gradient, trainStep };
  if (typeof module !== "undefined") module.exports = model;
  else root.tinyPolicyModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
