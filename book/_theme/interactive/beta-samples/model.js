// Reviews from the corpus of chapter 11 with their rewards, and the weights that the best policy gives them.
(function (root) {
  "use strict";

  // The first sixteen reviews of the corpus and VADER's score of each.
  const SAMPLES = [
    ["a great story.", 0.6249],
    ["boring, poor, terrible.", -0.8176],
    ["the film was clever.", 0.4588],
    ["long, strange, quiet, plain.", -0.2023],
    ["a boring script.", -0.3182],
    ["i enjoyed the story.", 0.5106],
    ["i liked the script.", 0.4215],
    ["an old cast and the script was plain.", 0.0],
    ["i noticed the cast.", 0.0],
    ["the ending was long.", 0.0],
    ["the acting was long.", 0.0],
    ["a poor ending.", -0.4767],
    ["a great plot and i liked the cast.", 0.7845],
    ["a plain script and a plain story.", 0.0],
    ["a clever cast.", 0.4588],
    ["a poor cast.", -0.4767],
  ];
  const REWARDS = {
    sentiment: SAMPLES.map(([, score]) => score),
    keyword: SAMPLES.map(([text]) => (text.includes("great") ? 1 : -1)),
  };
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  // exp(r / β) of each sample over their sum: samples of the base weigh the same, the best policy tilts them.
  function weights(rewards, beta) {
    const top = Math.max(...rewards);
    const tilted = rewards.map((reward) => Math.exp((reward - top) / beta));
    const total = sum(tilted);
    return tilted.map((weight) => weight / total);
  }

  // Of the tilted samples: mean reward, KL to the base (nats, over these samples), and how many they are worth.
  function summary(rewards, beta) {
    const tilted = weights(rewards, beta);
    return {
      reward: sum(tilted.map((weight, at) => weight * rewards[at])),
      kl: sum(tilted.map((weight) => (weight > 0 ? weight * Math.log(weight * rewards.length) : 0))),
      size: 1 / sum(tilted.map((weight) => weight * weight)),
    };
  }

  const model = { SAMPLES, REWARDS, weights, summary };
  if (typeof module !== "undefined") module.exports = model;
  else root.betaSamplesModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
