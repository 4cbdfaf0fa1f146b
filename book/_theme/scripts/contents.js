// The contents of the book as a drawer on small screens, and the page contents that follow the scroll.
(function () {
  "use strict";
  const drawer = document.getElementById("contents");
  const opener = document.querySelector("[data-open-contents]");
  const others = [document.querySelector("main"), document.querySelector(".site-header")];
  const small = matchMedia("(max-width: 60rem)");

  function setOpen(isOpen) {
    document.body.classList.toggle("contents-open", isOpen);
    opener.setAttribute("aria-expanded", String(isOpen));
    others.forEach((element) => { element.inert = isOpen; });
    if (isOpen) drawer.querySelector("[data-close-contents]").focus();
    else if (small.matches) opener.focus();
  }

  opener.addEventListener("click", () => setOpen(true));
  document.querySelectorAll("[data-close-contents]").forEach((element) => element.addEventListener("click", () => setOpen(false)));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.classList.contains("contents-open")) setOpen(false);
  });
  small.addEventListener("change", () => { if (document.body.classList.contains("contents-open")) setOpen(false); });

  requestAnimationFrame(() => {
    const current = drawer.querySelector("[aria-current]");
    if (!current || small.matches) return;
    const offset = current.offsetTop - drawer.clientHeight / 2;
    if (offset > 0) drawer.scrollTop = offset;
  });

  const links = [...document.querySelectorAll(".page-contents a")];
  if (!links.length) return;
  const targets = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  let waiting = false;
  function follow() {
    waiting = false;
    const line = 0.25 * innerHeight;
    let place = targets.findLastIndex((target) => target.getBoundingClientRect().top <= line);
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2) place = links.length - 1;
    links.forEach((link, number) => {
      if (number === place) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    });
    const link = links[place];
    const panel = link?.closest(".page-contents");
    if (link && (link.offsetTop < panel.scrollTop + 40 || link.offsetTop > panel.scrollTop + panel.clientHeight - 60)) panel.scrollTop = link.offsetTop - panel.clientHeight / 2;
  }
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(follow); } }, { passive: true });
  requestAnimationFrame(follow);
})();
