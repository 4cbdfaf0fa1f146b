// Copy buttons; wide code, tables and formulas can be scrolled by keyboard.
(function () {
  "use strict";
  async function copy(text) {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea"); // pages opened from the disk have no clipboard
    area.value = text;
    area.style.position = "fixed";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("copying was refused");
  }

  document.querySelectorAll("main .code, main .nbkit-source").forEach((block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await copy(block.querySelector("code").textContent.replace(/\n$/, ""));
        button.textContent = "Copied";
      } catch (error) {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  });

  const NAMES = { "code": "Code", "stream": "Output", "table-scroll": "Table", "math-scroll": "Formula", "html-output": "Output" };
  const scrollers = document.querySelectorAll(".code pre, .stream, .nbkit-source pre, .table-scroll, .math-scroll, .html-output");
  // What is far off the screen may have a box and no measured content yet.
  function markScroller(target) {
    if (target.scrollWidth < target.clientWidth) return false;
    const scrolls = target.scrollWidth > target.clientWidth + 1 || target.scrollHeight > target.clientHeight + 1;
    if (scrolls && target.tabIndex !== 0) {
      const kind = Object.keys(NAMES).find((name) => target.closest(`.${name}`));
      target.tabIndex = 0;
      target.setAttribute("role", "group");
      target.setAttribute("aria-label", `${NAMES[kind]}, scrolls`);
    } else if (!scrolls && target.hasAttribute("tabindex")) {
      ["tabindex", "role", "aria-label"].forEach((name) => target.removeAttribute(name));
    }
    return true;
  }
  const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => markScroller(target)));
  scrollers.forEach((element) => observer.observe(element));
  // A late font widens the content and not the box, and what is far off the screen is not laid out:
  // no resize is reported of either. So all are looked at again, a few at a time, when nothing else is to do.
  const whenIdle = window.requestIdleCallback || ((work) => setTimeout(() => work({ timeRemaining: () => 8 }), 50));
  let unmarked = [];
  function markSome(deadline) {
    const again = [];
    while (unmarked.length && deadline.timeRemaining() > 4) {
      const target = unmarked.pop();
      if (!markScroller(target)) again.push(target);
    }
    unmarked.push(...again);
    if (unmarked.length) whenIdle(markSome);
    else document.documentElement.dataset.scrollers = "marked";
  }
  function markAll() {
    document.documentElement.dataset.scrollers = "waiting";
    if (!unmarked.length) whenIdle(markSome);
    unmarked = [...scrollers];
  }
  document.fonts.addEventListener("loadingdone", markAll);
  addEventListener("load", markAll);

  // A link to something inside a folded part opens it.
  function reveal() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    let folded = false;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      folded ||= !fold.open;
      fold.open = true;
    }
    if (folded) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();

  document.addEventListener("click", (event) => {
    document.querySelectorAll("details.menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("main details:not(.menu):not([open])")]; opened.forEach((fold) => { fold.open = true; }); });
  addEventListener("afterprint", () => { opened.forEach((fold) => { fold.open = false; }); });
})();
