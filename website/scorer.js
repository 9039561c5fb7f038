// Which page of the site comes first in a search: of equally good ones the lessons, earlier days before later ones,
// and the reference last. The other numbers are Sphinx's own.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const day = /^lessons\/day(\d+)/.exec(page);
    if (day) return score + 10 - day[1] / 100;
    return page.startsWith("reference/") ? score - 20 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
