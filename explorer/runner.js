// One button. It stays the same element, so that the focus stays on it.
const PAUSE = 40; // milliseconds between two parts of the work, in which the browser draws

function render({ model, el }) {
  const button = Object.assign(document.createElement("button"), { type: "button" });
  el.append(button);
  let timer;

  const ask = () => {
    model.set("asked", model.get("asked") + 1);
    model.save_changes();
  };
  const paint = () => {
    const ended = !model.get("running") && model.get("label") === "Ended";
    button.textContent = model.get("running") ? "Stop" : model.get("label");
    button.ariaDisabled = String(ended);
  };
  button.onclick = () => {
    if (button.ariaDisabled === "true") return;
    model.set("running", !model.get("running"));
    ask();
    paint();
  };
  const answered = () => {
    clearTimeout(timer);
    // What was asked meanwhile will be answered as well: one question at a time.
    if (model.get("running") && model.get("asked") === model.get("answered")) timer = setTimeout(ask, PAUSE);
  };
  model.on("change:answered", answered);
  for (const name of ["running", "label"]) model.on(`change:${name}`, paint);
  paint();
  return () => clearTimeout(timer);
}

export default { render };
