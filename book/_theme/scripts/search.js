// The search window: opened by / or Ctrl-K, steered by the arrow keys.
(function () {
  "use strict";
  const engine = window.bookSearchEngine;
  const dialog = document.getElementById("search");
  const input = document.getElementById("search-input");
  const list = document.getElementById("search-results");
  const status = dialog.querySelector(".search-status");
  const root = document.body.dataset.root;
  let sections = null;
  let selected = -1;

  function load() {
    // The index is a script: a file opened from the disk may not fetch, but may load scripts.
    if (sections || document.querySelector("script[data-search-index]")) return;
    const script = document.createElement("script");
    script.src = root + "assets/search-index.js";
    script.dataset.searchIndex = "";
    script.onload = () => { sections = engine.prepare(window.bookSearchIndex); show(); };
    script.onerror = () => { status.textContent = "The search index could not be loaded. Run make book again."; };
    document.head.append(script);
  }

  function open() {
    load();
    if (!dialog.open) dialog.showModal();
    input.select();
    input.focus();
  }

  function marked(parent, text, query) {
    for (const [piece, isHit] of engine.highlight(text, query)) {
      if (!isHit) { parent.append(piece); continue; }
      const mark = document.createElement("mark");
      mark.textContent = piece;
      parent.append(mark);
    }
  }

  function row({ section, below }, number, query) {
    const link = document.createElement("a");
    if (below) link.className = "result-below";
    link.id = `search-result-${number}`;
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", "false");
    link.tabIndex = -1;
    link.href = `${root}${section.path}?highlight=${encodeURIComponent(query)}${section.anchor ? "#" + section.anchor : ""}`;
    const place = document.createElement("span");
    place.className = "result-place";
    marked(place, section.heading || section.title, query);
    const where = document.createElement("small");
    where.textContent = " " + [section.heading ? section.title : "", section.part].filter(Boolean).join(" · ");
    place.append(where);
    const text = document.createElement("span");
    text.className = "result-text";
    marked(text, engine.snippet(section, query), query);
    link.append(place);
    if (!below) link.append(text);
    return link;
  }

  function show() {
    const query = input.value.trim();
    list.replaceChildren();
    select(-1);
    if (!query) { status.textContent = ""; input.setAttribute("aria-expanded", "false"); return; }
    if (!sections) { status.textContent = "Loading the index …"; return; }
    const results = engine.search(sections, query);
    list.append(...results.map((result, number) => row(result, number, query)));
    input.setAttribute("aria-expanded", String(results.length > 0));
    const count = results.filter(({ below }) => !below).length;
    status.textContent = count ? `${count} ${count === 1 ? "result" : "results"}` : `Nothing found for “${query}”.`;
    if (results.length) select(0);
  }

  function select(number) {
    const rows = list.children;
    rows[selected]?.setAttribute("aria-selected", "false");
    selected = number;
    const row = rows[selected];
    if (!row) { input.removeAttribute("aria-activedescendant"); return; }
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", row.id);
  }

  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (event.key === "ArrowDown" && count) select((selected + 1) % count);
    else if (event.key === "ArrowUp" && count) select((selected - 1 + count) % count);
    else if (event.key === "Home" && event.ctrlKey && count) select(0);
    else if (event.key === "End" && event.ctrlKey && count) select(count - 1);
    else if (event.key === "Escape") dialog.close(); // at once: the field would only be emptied first
    else if (event.key === "Enter" && list.children[selected]) list.children[selected].click();
    else return;
    event.preventDefault();
  });
  list.addEventListener("mousemove", (event) => {
    const row = event.target.closest("a");
    const number = [...list.children].indexOf(row);
    if (row && number !== selected) select(number);
  });
  list.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.querySelector("[data-close-search]").addEventListener("click", () => dialog.close());
  document.querySelectorAll("[data-open-search]").forEach((button) => button.addEventListener("click", open));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=radio]):not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]");
    const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    const controlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!slash && !controlK) return;
    event.preventDefault();
    open();
  });
})();
