// A button for each head and each attention. What is drawn is changed in place, so that the focus stays where it
// is. One button at a time can be tabbed to; arrow keys lead to the others.

const DARKEST = 0.5; // the loss from which on a head's color is full

const make = (tag, parent, properties = {}) => {
  const made = Object.assign(document.createElement(tag), properties);
  parent.append(made);
  return made;
};

function render({ model, el }) {
  const places = model.get("places");
  const rows = () => model.get("on").split("-");
  const change = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  const toggle = (place, head) => {
    const changed = rows().map((row) => [...row]);
    changed[place][head] = changed[place][head] === "1" ? "0" : "1";
    change("on", changed.map((row) => row.join("")).join("-"));
  };

  const says = make("p", el, {
    textContent: "Click a sublayer to see its weights, a head to switch it off. On each head: how much the loss rises without it; a dot is less than 0.005. ",
  });
  const all = make("button", says, {
    className: "all",
    textContent: "all on",
    onclick: () => change("on", model.get("on").replaceAll("0", "1")),
  });
  const board = make("div", el, { className: "board", role: "group", ariaLabel: "heads" });
  const cards = places.map((name, place) => {
    const card = make("div", board, { className: "card" });
    const look = make("button", card, {
      className: "look",
      textContent: name,
      onclick: () => change("place", place),
    });
    const four = make("div", card, { className: "heads" });
    const heads = [...rows()[place]].map((_, head) => {
      const button = make("button", four, { onclick: () => toggle(place, head) });
      make("b", button, { textContent: head + 1 });
      return { button, cost: make("span", button) };
    });
    return { card, look, heads };
  });

  const buttons = cards.flatMap(({ look, heads }) => [look, ...heads.map(({ button }) => button)]);
  const open = (chosen) => buttons.forEach((one) => (one.tabIndex = one === chosen ? 0 : -1));
  open(cards[model.get("place")].look);
  board.addEventListener("focusin", ({ target }) => open(target));
  const moves = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };
  board.addEventListener("keydown", (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    buttons[buttons.indexOf(event.target) + moves[event.key]]?.focus();
  });

  const paint = () => {
    const [chosen, costs] = ["place", "costs"].map((name) => model.get(name));
    all.disabled = !model.get("on").includes("0");
    const on = rows();
    cards.forEach(({ card, look, heads }, place) => {
      card.classList.toggle("marked", place === chosen);
      look.ariaPressed = String(place === chosen);
      heads.forEach(({ button, cost }, head) => {
        const worth = costs[place]?.[head];
        const told = worth?.toFixed(2).replace("-0.00", "0.00").replace("-", "−") ?? "";
        cost.textContent = told === "0.00" ? "·" : told;
        button.ariaPressed = String(on[place][head] === "1");
        button.ariaLabel = `${places[place]}, head ${head + 1}, ${told} without it`;
        button.style.setProperty("--share", `${100 * Math.min(Math.max((worth ?? 0) / DARKEST, 0), 1)}%`);
      });
    });
  };
  for (const name of ["place", "on", "costs"]) model.on(`change:${name}`, paint);
  paint();
}

export default { render };
