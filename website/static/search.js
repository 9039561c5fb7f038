// Sphinx's search, which this changes in two ways: a misspelled word is replaced by the nearest that the pages have,
// and what is shown of a page comes from search_texts.js. So it works for files as well, which cannot be fetched.

// How many letters have to be put in, left out, replaced, or swapped with the next, to make one word of another.
function distance(a, b) {
  const rows = [[...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; i++) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j++) {
      const other = a[i - 1] === b[j - 1] ? 0 : 1;
      rows[i].push(Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + other));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.length][b.length];
}

// Every word of the pages, and how often it is there.
function vocabulary() {
  const counts = new Map();
  for (const sections of Object.values(SEARCH_TEXTS))
    for (const [, text] of sections)
      for (const word of splitQuery(text.toLowerCase()))
        if (!/\d/.test(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

// The word itself if a page has it, or has a longer one that it is a part of; otherwise the nearest, and of several
// that are equally near the most frequent.
function corrected(word, counts) {
  const given = word.toLowerCase();
  const most = given.length < 4 ? 0 : given.length < 7 ? 1 : 2;
  if (!most || stopwords.has(given)) return word;
  let [best, least, often] = [word, most + 1, 0];
  for (const [known, count] of counts) {
    if (known.includes(given)) return word;
    if (Math.abs(known.length - given.length) > most) continue;
    const apart = distance(given, known);
    if (apart < least || (apart === least && count > often)) [best, least, often] = [known, apart, count];
  }
  return best;
}

addEventListener("DOMContentLoaded", () => {
  const counts = vocabulary();
  const { query: search, makeSearchSummary: summary } = Search;
  let words = [];
  Search.query = (query) => {
    words = splitQuery(query).map((word) => corrected(word, counts));
    const meant = words.join(" ");
    if (meant === splitQuery(query).join(" ")) return search(query);
    const told = document.createElement("p");
    told.append(`No page has “${query}”. Shown instead: `, Object.assign(document.createElement("b"), { textContent: meant }));
    Search.output.before(told);
    search(meant);
  };

  // What Sphinx looks for in a text are stems, such as "rotari" of "rotary": the words themselves come after them.
  Search.makeSearchSummary = (text, stems, anchor) => summary(text, [...stems, ...words], anchor);

  // Sphinx asks for a page by its address, and makes of the answer what it shows: here the address is the answer.
  window.fetch = async (address) => ({ text: async () => address });
  Search.htmlToText = (address, anchor) => {
    const root = document.documentElement.dataset.content_root;
    const name = address.slice(root.length, -DOCUMENTATION_OPTIONS.FILE_SUFFIX.length);
    const sections = SEARCH_TEXTS[name] ?? [];
    const first = Math.max(0, sections.findIndex(([id]) => `#${id}` === anchor));
    return sections.slice(first).map(([, text]) => text).join(" ");
  };
}, { capture: true });
