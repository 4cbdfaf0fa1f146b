// Full-text search: plain functions of the index, without a page. Tested by tests/site/test_search_engine.py.
(function (root) {
  "use strict";

  const WEIGHTS = { title: 24, heading: 12, text: 1, wholeWord: 2, phraseInHeading: 150, phraseInText: 8 };
  const RANKS = { notebooks: 0, exercises: 1, solutions: 2 };
  const SHARES = [1, 0.5, 0.3]; // of their scores: what only exercises and solutions say comes later
  const MOST_BELOW = 2;
  const SNIPPET_LENGTH = 170;
  const WORD = /[\p{L}\p{N}]/u;

  function fold(text) {
    // Lower case without accents, of the same length, so that places in it are places in the text.
    return Array.from(text, (character) => {
      const plain = character.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
      return plain.length === character.length ? plain : character;
    }).join("");
  }

  function terms(query) {
    return [...new Set(fold(query).split(/[^\p{L}\p{N}_.\-]+/u).filter(Boolean))];
  }

  function prepare(index) {
    return index.sections.map(([page, heading, anchor, text]) => {
      const [title, path, part] = index.pages[page];
      return { title, path, part, heading, anchor, text,
        foldedTitle: fold(title), foldedHeading: fold(heading), foldedText: fold(text) };
    });
  }

  function occurrences(text, term) {
    // How often the term starts a word, and how often it is the whole word.
    let starts = 0, whole = 0;
    for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + term.length)) {
      if (at > 0 && WORD.test(text[at - 1])) continue;
      starts += 1;
      const after = text[at + term.length];
      if (after === undefined || !WORD.test(after)) whole += 1;
    }
    return { starts, whole };
  }

  function fieldScore(text, term, weight) {
    const { starts, whole } = occurrences(text, term);
    if (!starts) return 0;
    return weight * (Math.log2(1 + starts) + WEIGHTS.wholeWord * Math.log2(1 + whole));
  }

  function search(sections, query, limit = 40) {
    // Sections that hold every term (as a word or its beginning), best first; after them, if there is room,
    // those that hold at least half of the terms.
    const wanted = terms(query);
    if (!wanted.length) return [];
    const rarity = new Map(wanted.map((term) => {
      const holders = sections.filter((s) => occurrences(s.foldedText, term).starts || occurrences(s.foldedHeading, term).starts).length;
      return [term, Math.log(1 + sections.length / (1 + holders))];
    }));
    const phrase = fold(query.trim());
    const results = [];
    for (const section of sections) {
      let score = 0;
      let found = 0;
      for (const term of wanted) {
        const title = section.heading ? 0 : fieldScore(section.foldedTitle, term, WEIGHTS.title);
        const hit = title + fieldScore(section.foldedHeading, term, WEIGHTS.heading) + fieldScore(section.foldedText, term, WEIGHTS.text);
        if (hit) found += 1;
        score += hit * rarity.get(term);
      }
      if (2 * found < wanted.length || !found) continue;
      if (wanted.length > 1) {
        if (occurrences(section.foldedHeading || section.foldedTitle, phrase).starts) score += WEIGHTS.phraseInHeading;
        if (occurrences(section.foldedText, phrase).starts) score += WEIGHTS.phraseInText;
      }
      results.push({ section, score, found });
    }
    results.sort((a, b) => b.found - a.found || b.score - a.score);
    return folded(results).slice(0, limit);
  }

  function topic(path) {
    // A chapter, its exercises and its solutions are one topic; every other page is one of its own.
    const [, folder, name] = /^(notebooks|exercises|solutions)\/([^/]+)/.exec(path) || [];
    return name ? { key: name, rank: RANKS[folder] } : { key: path, rank: 0 };
  }

  function folded(results) {
    // One entry a topic, its chapter first; below it, marked by `below`, at most MOST_BELOW others of the topic:
    // sections of the chapter, then the best of the exercises, then the best of the solutions.
    const topics = new Map();
    for (const result of results) {
      const { key, rank } = topic(result.section.path);
      if (!topics.has(key)) topics.set(key, []);
      topics.get(key).push({ ...result, rank });
    }
    const value = (hits) => Math.max(...hits.map(({ score, rank }) => score * SHARES[rank]));
    const found = (hits) => Math.max(...hits.map((hit) => hit.found));
    const inOrder = [...topics.values()].sort((a, b) => found(b) - found(a) || value(b) - value(a));
    return inOrder.flatMap((hits) => {
      hits.sort((a, b) => a.rank - b.rank); // stable: within a rank the best comes first
      const seen = new Set();
      const kept = hits.filter(({ rank }) => rank === 0 || (!seen.has(rank) && seen.add(rank)));
      const [first, ...rest] = kept;
      const chapter = rest.filter(({ rank }) => rank === 0).slice(0, MOST_BELOW);
      return [{ ...first, below: false }, ...[...chapter, ...rest.filter(({ rank }) => rank > 0)].map((hit) => ({ ...hit, below: true }))];
    });
  }

  function firstPlace(folded, wanted, phrase) {
    for (const needle of [phrase, ...wanted]) {
      for (let at = folded.indexOf(needle); at >= 0; at = folded.indexOf(needle, at + 1)) {
        if (at === 0 || !WORD.test(folded[at - 1])) return at;
      }
    }
    return 0;
  }

  function snippet(section, query) {
    // The part of the text around the first hit.
    const at = firstPlace(section.foldedText, terms(query), fold(query.trim()));
    let start = Math.max(0, at - 50);
    if (start > 0) start = section.text.indexOf(" ", start) + 1 || start;
    const piece = section.text.slice(start, start + SNIPPET_LENGTH);
    return (start > 0 ? "… " : "") + piece + (start + SNIPPET_LENGTH < section.text.length ? " …" : "");
  }

  function highlight(text, query) {
    // The text in pieces: [text, isHit].
    const folded = fold(text);
    const hits = [];
    for (const term of terms(query)) {
      for (let at = folded.indexOf(term); at >= 0; at = folded.indexOf(term, at + term.length)) {
        if (at === 0 || !WORD.test(folded[at - 1])) hits.push([at, at + term.length]);
      }
    }
    hits.sort((a, b) => a[0] - b[0]);
    const pieces = [];
    let end = 0;
    for (const [from, to] of hits) {
      if (from < end) continue;
      if (from > end) pieces.push([text.slice(end, from), false]);
      pieces.push([text.slice(from, to), true]);
      end = to;
    }
    if (end < text.length) pieces.push([text.slice(end), false]);
    return pieces;
  }

  const engine = { fold, terms, prepare, search, snippet, highlight };
  if (typeof module !== "undefined") module.exports = engine;
  else root.bookSearchEngine = engine;
})(typeof globalThis !== "undefined" ? globalThis : this);
