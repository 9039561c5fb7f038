// What is wider than the page scrolls inside its box, which fades at the sides where there is more. A formula's or
// picture's box can be reached by a keyboard then, and only then; the theme sees to the others.
const PICTURE = ":has(> img[alt^='You are here'])"; // with words too small for a phone
const SCROLLING = `.formula, ${PICTURE}, .pst-scrollable-table-container, .bd-article pre, .drawing`;

function hint(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  box.classList.toggle("more-left", hidden > 1 && box.scrollLeft > 1);
  box.classList.toggle("more-right", hidden > 1 && box.scrollLeft < hidden - 1);
  if (!box.matches(`.formula, ${PICTURE}`)) return;
  if (hidden > 1) box.setAttribute("tabindex", "0");
  else box.removeAttribute("tabindex");
}
function fit() {
  document.querySelectorAll(".bd-article math").forEach(box);
  hintAll();
}
function hintAll() {
  document.querySelectorAll(SCROLLING).forEach(hint);
}
// A formula in a line of text that is wider than the page gets a box of its own. A table scrolls as a whole.
function box(math) {
  const room = math.closest("p, li, dd")?.clientWidth;
  if (!room || math.closest(".formula, table") || math.getBoundingClientRect().width < room + 1) return;
  const own = document.createElement("span");
  own.className = "formula";
  math.replaceWith(own);
  own.append(math);
}

addEventListener("DOMContentLoaded", hintAll);
for (const [kind, capture] of [["load", false], ["resize", false], ["toggle", true]]) {
  // In a fold nothing has a width until it is opened, and without its font a formula has another.
  addEventListener(kind, () => document.fonts.ready.then(fit), capture);
}
addEventListener("scroll", ({ target }) => target.matches?.(SCROLLING) && hint(target), true);

// A moving picture has played by the time one comes to it: it plays when it comes into view, and on a click.
function play(picture) {
  picture.src = `${picture.src.split("?")[0]}?${performance.now()}`;
}
const arriving = new IntersectionObserver((entries) => {
  entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
    arriving.unobserve(target);
    play(target);
  });
}, { threshold: 0.6 });
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll('img[alt^="In motion"]').forEach((picture) => {
    arriving.observe(picture);
    picture.addEventListener("click", () => play(picture));
  });
});
