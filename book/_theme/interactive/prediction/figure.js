// A guess that the reader makes on an empty plot, and what happened, drawn over it further down.
(function () {
  "use strict";
  const { register, html, slider, plot } = window.bookFigures;
  const { height, verdict } = window.predictionModel;
  const STEPS = 100;
  const NARROW = 480;  // pixels: below, the plot is drawn smaller, so that its words are not
  const guesses = new Map();  // id of the prediction: Map of x to y
  const number = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
  const listeners = new Map();  // id: what is called when the guess changes

  const guessOf = (id) => {
    if (!guesses.has(id)) guesses.set(id, new Map());
    return guesses.get(id);
  };
  const points = (id) => [...guessOf(id)].sort(([a], [b]) => a - b);
  const name = (asked, x) => (asked.places.length ? asked.places[x] : number(x));

  // The empty axes, in the heights of the model: exponents where the axis is logarithmic.
  function axes(asked, place) {
    const inside = [...(asked.truth ?? []), ...(asked.book ?? [])].map(([, y]) => height(asked, y));
    const ends = asked.yRange.map((y) => height(asked, y));
    const y = [Math.min(ends[0], ...inside), Math.max(ends[1], ...inside)];
    const xTicks = asked.places.length ? asked.places.map((_, at) => [at, String(at + 1)]) : undefined;
    const yTicks = asked.logY ? decades(y) : undefined;
    return plot({ x: asked.xRange, y, xLabel: asked.places.length ? "" : asked.x, yLabel: "", name: "", ...(place.clientWidth < NARROW ? { width: 340, height: 230 } : { width: 520, height: 260 }), xTicks, yTicks });
  }

  function decades([low, high]) {
    const step = Math.max(1, Math.ceil((high - low) / 6));
    const found = [];
    for (let power = Math.ceil(low); power <= high; power += step) found.push([power, power < -2 || power > 3 ? `1e${power}` : number(10 ** power)]);
    return found;
  }

  // Dots, and between them a line unless the places are names.
  function draw(picture, asked, layer, values, className) {
    const there = values.map(([x, y]) => [x, height(asked, y)]);
    if (asked.places.length || there.length === 1) picture.dots(layer, there, className.split(" ")[0]);
    else picture.line(layer, there, className);
  }

  // What stands above the plot: the words of its vertical axis, and of the horizontal one if it has names.
  function title(asked, places) {
    const names = places.length ? `: ${places.map((place, at) => `${at + 1} ${place}`).join("; ")}` : "";
    return html("p", { class: "figure-legend" }, asked.places.length ? `${asked.y}, against ${asked.x}${names}` : asked.y);
  }

  function said(asked, found) {
    const apart = asked.logY ? `a factor of ${number(10 ** found.mean)}` : number(found.mean);
    return `${found.score} of 100, on average ${apart} apart. Furthest at ${name(asked, found.place)}: ${number(found.guessed)} guessed, ${number(found.value)} true.`;
  }

  function ask(panel, asked, place) {
    const picture = axes(asked, place);
    const note = html("p", { class: "figure-note", role: "status" });
    const [low, high] = asked.yRange.map((y) => height(asked, y));
    const toValue = (step) => {
      const at = low + ((high - low) * step) / STEPS;
      return asked.logY ? 10 ** at : at;
    };
    const toStep = (y) => Math.round(((height(asked, y) - low) / (high - low)) * STEPS);
    const guess = guessOf(asked.id);
    const controls = new Map();

    function put(x, y) {
      guess.set(x, y);
      controls.get(x).set(toStep(y));
      redraw();
    }
    function redraw() {
      draw(picture, asked, "guess", points(asked.id), "break dashed");
      picture.dots("guess-dots", points(asked.id).map(([x, y]) => [x, height(asked, y)]), "break");
      const left = asked.at.length - guess.size;
      note.textContent = left === asked.at.length ? "Your guess: press on the plot, or move the sliders. What happened is drawn over it below the run."
        : left ? `${left} of ${asked.at.length} still to guess.` : "Your guess stands; what happened is drawn over it below the run.";
      picture.describe(`${asked.y} against ${asked.x}: ${guess.size ? `your guess, ${points(asked.id).map(([x, y]) => `${name(asked, x)}: ${number(y)}`).join(", ")}` : "an empty plot for a guess"}.`);
      (listeners.get(asked.id) ?? []).forEach((listener) => listener());
    }
    for (const x of asked.at) {
      const label = asked.places.length ? `${x + 1} ${asked.places[x]}` : `at ${number(x)}`;
      controls.set(x, slider({
        label, min: 0, max: STEPS, step: 1, value: STEPS / 2,
        format: (step) => (guess.has(x) ? number(toValue(step)) : "no guess"),
        input: (step) => put(x, toValue(step)),
      }));
    }
    picture.element.classList.add("draggable");
    picture.element.addEventListener("pointerdown", (event) => {
      const [x, y] = picture.place(event);
      const nearest = asked.at.reduce((best, at) => (Math.abs(at - x) < Math.abs(best - x) ? at : best));
      put(nearest, asked.logY ? 10 ** y : y);
    });
    panel.append(title(asked, []), picture.element, html("div", { class: "figure-controls" }, ...[...controls.values()].map((control) => control.element)), note);
    redraw();
  }

  function show(panel, asked, place) {
    const picture = axes(asked, place);
    const note = html("p", { class: "figure-note", role: "status" });
    const legend = html("p", { class: "figure-legend" }, html("span", { class: asked.places.length ? "key build round" : "key build" }, "what happened"),
      ...(asked.book.length ? [html("span", { class: asked.places.length ? "key scale round" : "key scale dashed" }, "the book's guess")] : []), html("span", { class: "key break round" }, "your guess"));
    draw(picture, asked, "book", asked.book, "scale dashed");
    draw(picture, asked, "truth", asked.truth, "build thick");
    function redraw() {
      const guess = points(asked.id);
      const whole = guess.length > 0 && (!asked.places.length || guess.length === asked.places.length);
      picture.dots("guess-dots", guess.map(([x, y]) => [x, height(asked, y)]), "break");
      draw(picture, asked, "guess", guess, "break dashed");
      note.textContent = whole ? `Your guess: ${said(asked, verdict(asked, guess, asked.truth))}` : "You have not guessed; what is drawn is what happened.";
      picture.describe(`${asked.y} against ${asked.x}: what happened, ${asked.truth.length > 12 ? `from ${number(asked.truth[0][1])} to ${number(asked.truth.at(-1)[1])}` : asked.truth.map(([x, y]) => `${name(asked, x)}: ${number(y)}`).join(", ")}. ${note.textContent}`);
    }
    if (!listeners.has(asked.id)) listeners.set(asked.id, []);
    listeners.get(asked.id).push(redraw);
    panel.append(title(asked, asked.places), picture.element, legend, note);
    redraw();
  }

  register("prediction", "A prediction, interactive", (panel, place) => {
    const asked = JSON.parse(place.querySelector("script").textContent);
    (asked.truth ? show : ask)(panel, asked, place);
  });
})();
