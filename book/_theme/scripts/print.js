// In the PDF of the book each page is printed on its own: ?first-page=57 says where its numbers begin.
(function () {
  "use strict";
  const first = Number(new URLSearchParams(location.search).get("first-page"));
  if (!first) return;
  document.documentElement.style.counterReset = `page ${first - 1}`;
  const title = JSON.stringify(document.querySelector("h1").textContent.trim());
  const style = document.createElement("style");
  const font = "font: 9pt 'Source Sans 3', sans-serif; color: #555;";
  style.textContent = `@page { @bottom-center { content: counter(page); ${font} } } @page :not(:first) { @top-right { content: ${title}; ${font} } }`;
  document.head.append(style);
  document.querySelectorAll("main details").forEach((fold) => { fold.open = true; });
  document.querySelectorAll("img[loading=lazy]").forEach((image) => { image.loading = "eager"; });
})();
