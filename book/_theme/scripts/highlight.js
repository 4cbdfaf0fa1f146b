// Marks the searched words on the page that a search result led to; Escape removes the marks.
(function () {
  "use strict";
  const query = new URLSearchParams(location.search).get("highlight");
  if (!query || !window.CSS?.highlights) return;
  const engine = window.bookSearchEngine;
  const wanted = engine.terms(query);
  const ranges = [];
  const walker = document.createTreeWalker(document.querySelector("main article"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest(".katex, script, style")) continue;
    const text = engine.fold(node.data);
    for (const term of wanted) {
      for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + term.length)) {
        if (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) continue;
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + term.length);
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("search-terms", new Highlight(...ranges));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") CSS.highlights.delete("search-terms"); });
})();
