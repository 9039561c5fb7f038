// A table of weights whose cells are buttons that allow or forbid. What is drawn is changed in place, so that
// the focus stays where it is. One cell at a time can be tabbed to; arrow keys lead to the others.

const make = (tag, parent, properties = {}) => {
  const made = Object.assign(document.createElement(tag), properties);
  parent.append(made);
  return made;
};

const text = (weight) => (Math.abs(weight) < 1e4 ? weight.toFixed(2) : weight.toExponential(0)).replace("-", "−");

function render({ model, el }) {
  const words = model.get("words");
  const masks = model.get("masks");
  const named = (index) => `${words[index]} (${index + 1})`;
  const rows = () => (masks[model.get("mask")] ?? model.get("mask")).split("-");

  const change = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const take = (changed, query) => {
    const mask = changed.join("-");
    const name = Object.keys(masks).find((known) => masks[known] === mask);
    change({ mask: name ?? mask, query });
  };
  const changedRow = (query, row) => rows().map((old, index) => (index === query ? row : old));

  const tools = make("div", el, { className: "tools", role: "group", ariaLabel: "mask" });
  make("span", tools, { textContent: "mask" });
  const choices = Object.keys(masks).map((name) =>
    make("button", tools, { textContent: name, onclick: () => change({ mask: name }) }),
  );
  // The mask with a name that holds, apart from queries that may attend to nothing.
  const base = () =>
    Object.keys(masks).find((name) =>
      masks[name].split("-").every((row, query) => row === rows()[query] || !rows()[query].includes("1")),
    );
  const nothing = make("button", tools, {
    onclick: () => {
      const query = model.get("query");
      const all = masks[base()]?.split("-")[query] ?? "1".repeat(words.length);
      take(changedRow(query, rows()[query].includes("1") ? all.replaceAll("1", "0") : all), query);
    },
  });

  const says = "Weights, a row for each query. Click a word for its steps, a cell to forbid or allow it.";
  make("p", el, { textContent: says });
  const table = make("table", make("div", el, { className: "scroll" }), { ariaLabel: "weights" });
  const head = make("tr", make("thead", table));
  make("td", head);
  words.forEach((word, index) =>
    make("th", head, { scope: "col", textContent: word, title: named(index), dir: "auto" }),
  );
  const body = make("tbody", table);
  const lines = words.map((word, query) => {
    const line = make("tr", body);
    const asks = make("button", make("th", line, { scope: "row" }), {
      textContent: word,
      title: named(query),
      ariaLabel: `query ${named(query)}`,
      dir: "auto",
      onclick: () => change({ query }),
    });
    const cells = words.map((_, key) =>
      make("button", make("td", line), {
        onclick: () => {
          const row = [...rows()[query]];
          row[key] = row[key] === "1" ? "0" : "1";
          take(changedRow(query, row.join("")), query);
        },
      }),
    );
    return { line, asks, cells };
  });

  const buttons = lines.map(({ asks, cells }) => [asks, ...cells]);
  const open = (chosen) => buttons.flat().forEach((one) => (one.tabIndex = one === chosen ? 0 : -1));
  open(buttons[model.get("query")][0]);
  table.addEventListener("focusin", ({ target }) => open(target));
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  table.addEventListener("keydown", (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    const row = buttons.findIndex((line) => line.includes(event.target));
    const [down, right] = moves[event.key];
    buttons[row + down]?.[buttons[row].indexOf(event.target) + right]?.focus();
  });

  const paint = () => {
    const [query, weights] = ["query", "weights"].map((name) => model.get(name));
    choices.forEach((button) => (button.ariaPressed = String(button.textContent === base())));
    nothing.ariaPressed = String(!rows()[query].includes("1"));
    nothing.textContent = `nothing for “${words[query]}”`;
    const allowed = rows();
    lines.forEach(({ line, asks, cells }, from) => {
      line.classList.toggle("marked", from === query);
      asks.ariaPressed = String(from === query);
      cells.forEach((cell, to) => {
        const weight = weights[from]?.[to];
        const told = weight === undefined ? "" : text(weight);
        const may = allowed[from][to] === "1";
        cell.ariaPressed = String(may);
        cell.ariaLabel = `${named(from)} attends to ${named(to)}, weight ${told || "unknown"}`;
        cell.textContent = may || weight ? told : "";
        cell.classList.toggle("minus", weight < 0);
        cell.style.setProperty("--share", `${100 * Math.min(Math.abs(weight ?? 0), 1)}%`);
      });
    });
  };
  for (const name of ["mask", "query", "weights"]) model.on(`change:${name}`, paint);
  paint();
}

export default { render };
