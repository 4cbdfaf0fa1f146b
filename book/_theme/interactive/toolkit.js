// What interactive figures share: registration, controls, and a small plot in SVG.
// A figure is registered by name; the toolkit finds its places in the page and builds it there.
(function () {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  let count = 0;

  function make(namespace, tag, attributes, children) {
    const element = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }
  const html = (tag, attributes, ...children) => make(null, tag, attributes, children);
  const svg = (tag, attributes, ...children) => make(SVG, tag, attributes, children);

  // A labelled slider whose value is shown and read out in words: {element, value, set(value)}.
  function slider({ label, min, max, step, value, format, input }) {
    const id = `figure-control-${(count += 1)}`;
    const output = html("output", { for: id, class: "control-value" });
    const range = html("input", { type: "range", id, min, max, step, value });
    const show = () => {
      output.textContent = format(Number(range.value));
      range.setAttribute("aria-valuetext", output.textContent);
    };
    range.addEventListener("input", () => { show(); input(Number(range.value)); });
    show();
    return {
      element: html("div", { class: "control" }, html("label", { for: id }, label), range, output),
      get value() { return Number(range.value); },
      set(newValue) { range.value = newValue; show(); },
    };
  }

  function button(label, press, attributes) {
    return html("button", { type: "button", class: "figure-button", ...attributes, onclick: press }, label);
  }

  function ticks([low, high], wanted) {
    // Round numbers between the ends.
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const found = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + 1e-9 * step; tick += step) found.push(Number(tick.toPrecision(10)));
    return found;
  }

  // A plot with axes in the units of the data. Layers are replaced by name, so a redraw is cheap.
  function plot({ x, y, xLabel, yLabel, name, width = 340, height = 250, xTicks, yTicks }) {
    const named = (given, range) => given ?? ticks(range, 5).map((tick) => [tick, String(tick)]);
    const margin = { left: 50, right: 12, top: 12, bottom: 44 };
    const toX = (value) => margin.left + ((value - x[0]) / (x[1] - x[0])) * (width - margin.left - margin.right);
    const toY = (value) => height - margin.bottom - ((value - y[0]) / (y[1] - y[0])) * (height - margin.top - margin.bottom);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name, class: "plot" });
    const axes = svg("g", { class: "plot-axes" });
    for (const [tick, words] of named(xTicks, x)) {
      axes.append(svg("line", { x1: toX(tick), x2: toX(tick), y1: toY(y[0]), y2: toY(y[1]), class: "plot-grid" }),
        svg("text", { x: toX(tick), y: height - margin.bottom + 17, "text-anchor": "middle" }, words));
    }
    for (const [tick, words] of named(yTicks, y)) {
      axes.append(svg("line", { x1: toX(x[0]), x2: toX(x[1]), y1: toY(tick), y2: toY(tick), class: "plot-grid" }),
        svg("text", { x: margin.left - 8, y: toY(tick) + 4, "text-anchor": "end" }, words));
    }
    axes.append(svg("text", { x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle", class: "plot-label" }, xLabel),
      svg("text", { transform: `translate(13 ${(height - margin.bottom + margin.top) / 2}) rotate(-90)`, "text-anchor": "middle", class: "plot-label" }, yLabel));
    root.append(axes);
    const layers = new Map();
    const clamp = (value, [low, high]) => Math.min(high, Math.max(low, value));

    function layer(key, ...shapes) {
      if (!layers.has(key)) {
        layers.set(key, svg("g", {}));
        root.append(layers.get(key));
      }
      layers.get(key).replaceChildren(...shapes);
    }
    const path = (points) => points.map(([px, py], at) => `${at ? "L" : "M"}${toX(clamp(px, x)).toFixed(1)} ${toY(clamp(py, y)).toFixed(1)}`).join("");
    return {
      element: root,
      line: (key, points, className) => layer(key, svg("path", { d: path(points), class: `plot-line ${className}` })),
      area: (key, points, className) => layer(key, svg("path", { d: `${path(points)}Z`, class: `plot-area ${className}` })),
      dots: (key, points, className) => layer(key, ...points.map(([px, py]) => svg("circle", { cx: toX(clamp(px, x)), cy: toY(clamp(py, y)), r: 5, class: `plot-dot ${className}` }))),
      dot: (key, px, py, className) => layer(key, svg("circle", { cx: toX(clamp(px, x)), cy: toY(clamp(py, y)), r: 5.5, class: `plot-dot ${className}` })),
      text: (key, px, py, words, className = "", anchor = "start") => layer(key, svg("text", { x: toX(px), y: toY(py), "text-anchor": anchor, class: `plot-text ${className}` }, words)),
      describe: (words) => root.setAttribute("aria-label", words),
      // Where a pointer is, in the units of the data.
      place(event) {
        const box = root.getBoundingClientRect();
        const px = ((event.clientX - box.left) / box.width) * width;
        const py = ((event.clientY - box.top) / box.height) * height;
        return [clamp(x[0] + ((px - margin.left) / (width - margin.left - margin.right)) * (x[1] - x[0]), x),
          clamp(y[0] + ((height - margin.bottom - py) / (height - margin.top - margin.bottom)) * (y[1] - y[0]), y)];
      },
    };
  }

  // A figure is built when the reader comes near it.
  function register(name, title, build) {
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        const panel = html("div", { class: "interactive-panel", role: "group", "aria-label": title });
        build(panel, target);
        target.append(panel);
        target.dataset.ready = "";
      }
    }, { rootMargin: "600px" });
    document.querySelectorAll(`.interactive[data-figure="${name}"]`).forEach((place) => observer.observe(place));
  }

  const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  window.bookFigures = { register, html, svg, slider, button, plot, reducedMotion };
})();
