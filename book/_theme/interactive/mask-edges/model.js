// Two texts with their masks, the log-probabilities of their tokens, and the means that masks make of them.
(function (root) {
  "use strict";

  const PROMPT = "prompt", ANSWER = "answer", END = "end", PAD = "pad";
  // Tokens with their kind; `logprobs[j]` is that of token j + 1 after the tokens before it. Invented numbers.
  const TEXTS = [
    {
      tokens: ["2", "+", "2", "=", "4", "<eos>", "<pad>", "<pad>"],
      kinds: [PROMPT, PROMPT, PROMPT, PROMPT, ANSWER, END, PAD, PAD],
      logprobs: [-1.6, -1.9, -0.4, -0.2, -0.1, -9, -9],
    },
    {
      tokens: ["7", "·", "3", "=", "2", "1", "<eos>", "<pad>"],
      kinds: [PROMPT, PROMPT, PROMPT, PROMPT, ANSWER, ANSWER, END, PAD],
      logprobs: [-2.4, -1.8, -0.3, -1.2, -0.6, -0.3, -9],
    },
  ];
  const LENGTH = TEXTS[0].tokens.length;
  const RIGHT = TEXTS.map(({ kinds }) => [kinds.indexOf(ANSWER), kinds.indexOf(END)]); // first and last token that count

  // Which log-probabilities count when tokens first…last have mask 1. "shifted" is mask[:, 1:], which goes
  // with the log-probability of the same token; "unshifted" is mask[:, :-1], which goes with that of the next.
  function counted([first, last], how) {
    return Array.from({ length: LENGTH - 1 }, (_, column) => {
      const token = how === "shifted" ? column + 1 : column;
      return token >= first && token <= last;
    });
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);

  // Minus the mean log-probability: over all tokens that count, and over the rows' own means. 0 where none counts.
  function losses(edges, how) {
    const rows = TEXTS.map(({ logprobs }, text) => logprobs.filter((_, column) => counted(edges[text], how)[column]).map((value) => -value));
    const all = rows.flat();
    const means = rows.map((row) => (row.length ? sum(row) / row.length : 0));
    return { tokens: all.length, tokenMean: all.length ? sum(all) / all.length : 0, rowMean: sum(means) / means.length, means };
  }

  // What is wrong with a row, in words; an empty list where exactly the tokens that the policy chose count.
  function faults(text, edge, how) {
    const { kinds } = TEXTS[text], counts = counted(edge, how), found = [];
    const has = (kind, wanted) => counts.some((count, column) => kinds[column + 1] === kind && count === wanted);
    if (has(PROMPT, true)) found.push("a token of the prompt counts: nobody sampled it");
    if (has(ANSWER, false)) found.push("a token of the answer does not count");
    if (has(END, false)) found.push("the end of the sequence does not count: the policy never learns to stop");
    if (has(PAD, true)) found.push("padding counts: its log-probability was never asked for");
    return found;
  }

  const model = { TEXTS, LENGTH, RIGHT, counted, losses, faults };
  if (typeof module !== "undefined") module.exports = model;
  else root.maskEdgesModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
