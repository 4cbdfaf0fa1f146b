// Pointing at (or moving the focus to) a citation or reference shows what it refers to.
(function () {
  "use strict";
  const DELAY_MS = 180;
  const BLOCKS_AFTER_A_HEADING = 2;
  let box = null, owner = null, timer = 0;

  function content(link) {
    const fragment = document.createDocumentFragment();
    const key = link.dataset.preview;
    if (key) {
      fragment.append(document.getElementById(key).content.cloneNode(true));
      return fragment;
    }
    const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target) return fragment;
    if (target.matches("li")) {
      const item = document.createElement("div");
      item.append(...target.cloneNode(true).childNodes);
      fragment.append(item);
    } else if (target.matches("dt")) {
      const list = document.createElement("dl");
      list.append(target.cloneNode(true), target.nextElementSibling.cloneNode(true));
      fragment.append(list);
    } else {
      fragment.append(target.cloneNode(true));
      if (target.matches("h2, h3, h4, h5, h6")) {
        let next = target.nextElementSibling;
        for (let count = 0; next && count < BLOCKS_AFTER_A_HEADING && !next.matches("h2, h3, h4, h5, h6"); count += 1) {
          fragment.append(next.cloneNode(true));
          next = next.nextElementSibling;
        }
      }
    }
    fragment.querySelectorAll("h2, h3, h4, h5, h6").forEach((heading) => {
      const title = document.createElement("p");
      title.className = "preview-title";
      title.append(...heading.childNodes);
      heading.replaceWith(title);
    });
    fragment.querySelectorAll(".anchor, .back, .copy-button, .equation-number, .interactive-panel").forEach((element) => element.remove());
    fragment.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"));
    fragment.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    return fragment;
  }

  function show(link) {
    hide();
    const inside = content(link);
    if (!inside.childNodes.length) return;
    owner = link;
    box = document.createElement("div");
    box.className = "preview prose-preview";
    box.id = "preview";
    box.setAttribute("role", "tooltip");
    box.append(inside);
    box.addEventListener("mouseenter", () => clearTimeout(timer));
    box.addEventListener("mouseleave", hideSoon);
    document.body.append(box);
    link.setAttribute("aria-describedby", "preview");
    const at = link.getClientRects()[0];
    const below = at.bottom + box.offsetHeight + 12 < innerHeight || at.top < box.offsetHeight + 70;
    box.style.top = `${scrollY + (below ? at.bottom + 8 : at.top - box.offsetHeight - 8)}px`;
    box.style.left = `${Math.max(10, Math.min(at.left - 16, document.documentElement.clientWidth - box.offsetWidth - 12))}px`;
  }

  function hide() {
    clearTimeout(timer);
    owner?.removeAttribute("aria-describedby");
    box?.remove();
    box = owner = null;
  }

  function showSoon(link) {
    clearTimeout(timer);
    if (link !== owner) timer = setTimeout(() => show(link), DELAY_MS);
  }

  function hideSoon() {
    clearTimeout(timer);
    timer = setTimeout(hide, DELAY_MS);
  }

  const linkOf = (event) => event.target.closest?.("main a[data-preview]");
  if (matchMedia("(hover: hover)").matches) {
    document.addEventListener("mouseover", (event) => { const link = linkOf(event); if (link) showSoon(link); });
    document.addEventListener("mouseout", (event) => { if (linkOf(event)) hideSoon(); });
  }
  document.addEventListener("focusin", (event) => { const link = linkOf(event); if (link?.matches(":focus-visible")) showSoon(link); });
  document.addEventListener("focusout", (event) => { if (linkOf(event)) hideSoon(); });
  document.addEventListener("click", (event) => { if (linkOf(event)) hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
