// Two rows of tokens whose masks have edges to drag; below each token the log-probability that counts or not.
(function () {
  "use strict";
  const { register, html, svg, slider, button } = window.bookFigures;
  const model = window.maskEdgesModel;
  const CELL = { width: 46, height: 24 }, ROW = 92, LEFT = 4, WIDTH = LEFT * 2 + CELL.width * model.LENGTH;
  const number = (value) => value.toFixed(2).replace("-", "−");

  register("mask-edges", "Masks over two texts, interactive", (panel) => {
    const state = { edges: model.RIGHT.map((edge) => [...edge]), how: "shifted" };
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${ROW * model.TEXTS.length}`, class: "plot draggable token-table", role: "img" });
    const facts = html("dl", { class: "figure-facts" });
    const note = html("p", { class: "figure-note", role: "status" });
    const left = (token) => LEFT + token * CELL.width;

    function cell(token, top, words, className) {
      return [svg("rect", { x: left(token) + 1.5, y: top, width: CELL.width - 3, height: CELL.height, rx: 3, class: `token ${className}` }),
        svg("text", { x: left(token) + CELL.width / 2, y: top + 16.5, "text-anchor": "middle", class: `token-text ${className}` }, words)];
    }
    function drawRow(text) {
      const { tokens, logprobs } = model.TEXTS[text], [first, last] = state.edges[text];
      const top = ROW * text + 6, counts = model.counted(state.edges[text], state.how), shapes = [];
      tokens.forEach((token, at) => shapes.push(...cell(at, top, token, at >= first && at <= last ? "masked" : "plain")));
      logprobs.forEach((value, column) => shapes.push(...cell(column + 1, top + 50, number(value), counts[column] ? "counts" : "plain")));
      counts.forEach((count, column) => {
        if (!count) return;
        const from = state.how === "shifted" ? column + 1 : column;
        shapes.push(svg("line", { x1: left(from) + CELL.width / 2, x2: left(column + 1) + CELL.width / 2, y1: top + CELL.height + 2, y2: top + 48, class: "plot-line muted" }));
      });
      for (const edge of [left(first), left(last + 1)]) shapes.push(svg("line", { x1: edge, x2: edge, y1: top - 5, y2: top + CELL.height + 5, class: "plot-line break thick" }));
      return shapes;
    }
    function draw() {
      picture.replaceChildren(...model.TEXTS.flatMap((_, text) => drawRow(text)));
      const found = model.losses(state.edges, state.how);
      facts.replaceChildren(...[
        ["tokens that count", String(found.tokens)],
        ["loss, mean over tokens", number(found.tokenMean)],
        ["loss, mean of the rows' means", number(found.rowMean)],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      const wrong = state.edges.map((edge, text) => model.faults(text, edge, state.how));
      const words = wrong.every((one) => one.length === 0)
        ? "Exactly the tokens that the policy chose count, the end of the sequence among them."
        : wrong.map((one, text) => (one.length ? `Row ${text + 1}: ${one.join("; ")}.` : "")).filter(Boolean).join(" ");
      if (note.textContent !== words) note.textContent = words;
      picture.setAttribute("aria-label", model.TEXTS.map(({ tokens }, text) => {
        const counts = model.counted(state.edges[text], state.how);
        const names = tokens.slice(1).filter((_, column) => counts[column]);
        return `Row ${text + 1}: the mask is on tokens ${tokens.slice(state.edges[text][0], state.edges[text][1] + 1).join(" ")}; the log-probabilities of ${names.join(" ") || "no token"} count.`;
      }).join(" "));
    }

    const sliders = state.edges.map((edge, text) => [0, 1].map((end) => slider({
      label: `Row ${text + 1}, ${end ? "last" : "first"} token of the mask`, min: 0, max: model.LENGTH - 1, step: 1, value: edge[end],
      format: (at) => model.TEXTS[text].tokens[at], input: (at) => move(text, end, at),
    })));
    function move(text, end, at) {
      const edge = state.edges[text];
      edge[end] = at;
      edge[1 - end] = end ? Math.min(edge[0], at) : Math.max(edge[1], at);
      sliders[text].forEach((one, which) => one.set(edge[which]));
      draw();
    }
    let held = null;
    function drag(event) {
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH, y = ((event.clientY - box.top) / box.height) * ROW * model.TEXTS.length;
      const place = (x - LEFT) / CELL.width;
      if (event.type === "pointerdown") {
        const text = Math.max(0, Math.min(model.TEXTS.length - 1, Math.floor(y / ROW)));
        const [first, last] = state.edges[text];
        held = { text, end: Math.abs(place - first) <= Math.abs(place - last - 1) ? 0 : 1 };
        picture.setPointerCapture(event.pointerId);
      }
      if (!held || !picture.hasPointerCapture(event.pointerId)) return;
      const at = Math.max(0, Math.min(model.LENGTH - 1, Math.round(place) - held.end));
      if (at !== state.edges[held.text][held.end]) move(held.text, held.end, at);
    }
    for (const kind of ["pointerdown", "pointermove"]) picture.addEventListener(kind, drag);
    picture.addEventListener("pointerup", () => { held = null; });

    const choices = { shifted: "mask[:, 1:]", unshifted: "mask[:, :-1]" };
    const buttons = Object.entries(choices).map(([how, words]) => button(words, () => {
      state.how = how;
      buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(Object.keys(choices)[at] === how)));
      draw();
    }, { "aria-pressed": String(how === state.how) }));
    const reset = button("The right mask", () => { model.RIGHT.forEach(([first, last], text) => { move(text, 0, first); move(text, 1, last); }); buttons[0].click(); });
    draw();
    panel.append(
      html("div", { class: "figure-scroll" }, picture),
      html("p", { class: "figure-legend" }, html("span", { class: "key break" }, "edges of the mask: drag them"), html("span", { class: "key build" }, "log-probabilities that count, each under its token")),
      html("div", { class: "figure-controls" }, ...sliders.flat().map((one) => one.element)),
      html("div", { class: "figure-buttons" }, ...buttons, reset),
      facts, note,
    );
  });
})();
