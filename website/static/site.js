// A formula that is wider than the page scrolls inside its box: then, and only then, a keyboard can reach it.
function reachFormulas() {
  document.querySelectorAll(".formula").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  });
}

addEventListener("DOMContentLoaded", reachFormulas);
addEventListener("resize", reachFormulas);
// In a fold nothing has a width until it is opened.
addEventListener("toggle", reachFormulas, true);

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
