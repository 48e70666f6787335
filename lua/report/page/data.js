// The section of the data sets.

// Counts of data_report.json, with their names on the page.
const COUNTS = {
  rows: "rows",
  examples: "examples",
  tokens: "tokens",
  learnt: "trained tokens",
  truncated: "truncated rows",
  starved: "rows with few targets left",
  nothing_learnt: "rows without targets",
  longest: "longest row, tokens",
  left_over: "tokens dropped (no full block)",
};

const LISTS = {
  skipped: "Rows left out",
  noted: "Rows kept with a note",
};

function countCards(data, names) {
  const counted = Object.entries(names).filter(([name]) => data[name]);
  return element(
      "div", {class: "cards"}, ...counted.map(([name, title]) => card(title, integer(data[name]))));
}

function dataOf(data) {
  const parts = [countCards(data, COUNTS)];
  if ((data.lengths || []).length > 0)
    parts.push(element("h3", {}, "Rows by their length in tokens"), lengthBars(data));
  for (const [name, title] of Object.entries(LISTS)) {
    const kinds = data[name] || [];
    if (kinds.length === 0) continue;
    const rows = kinds.map((kind) => [kind.what, kind.count, kind.first]);
    parts.push(element("h3", {}, title), table(["why", "rows", "the first"], rows));
  }
  for (const each of data.evaluated || []) {
    parts.push(
        element("h3", {}, "Evaluation data: " + each.name),
        countCards(each, {...COUNTS, learnt: "target tokens"}));
  }
  return parts;
}

function dataParts(runs) {
  return runs.filter((run) => run.data)
      .flatMap(
          (run) =>
              [...(isCompared() ? [element("h3", {}, runName(run))] : []), ...dataOf(run.data)]);
}
