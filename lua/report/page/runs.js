// The list of runs, where the page has more than one: to choose which are shown, and to search.

// What the page is about: whether it is live, when its data were made, and its runs.
const page = {
  live: false,
  made: "",
  entries: [],
  colors: new Map()
};

const chosen = new Set();  // names of the runs that are shown
const met = new Set();     // names of the runs whose data the page has received
const list = {
  body: document.getElementById("run-list"),
  drawn: "",
  asks: false,
  rows: []
};

// Several runs are compared, also where only one of them is shown, so that it keeps its colour.
function isCompared() {
  return page.entries.length > 1;
}

function runColor(name) {
  return page.colors.get(name) ?? 0;
}

// The names to ask `moonring watch` for; null if it always sends all runs.
function chosenRuns() {
  return list.asks ? [...chosen] : null;
}

function entryOf(run) {
  const state = run.state || {};
  return {
    name: run.name,
    state: run.status.word,
    step: run.standing.step ?? state.step,
    total_steps: run.standing.total_steps ?? state.total_steps,
    began: state.began,
  };
}

// Takes the names of the page's data. New runs are shown at once; runs of a folder's list are shown
// when they are chosen.
function takeRuns(data) {
  list.asks = Array.isArray(data.list);
  const own = new Map(data.runs.map((run) => [run.name, entryOf(run)]));
  page.entries =
      list.asks ? data.list.map((each) => own.get(each.name) || each) : [...own.values()];
  page.colors = colorsOf(page.entries.map(({name}) => name));
  for (const name of own.keys()) {
    if (!met.has(name) && (!list.asks || met.size === 0)) chosen.add(name);
  }
  for (const name of own.keys()) met.add(name);
  drawList();
}

function choose(names, on) {
  for (const name of names) on ? chosen.add(name) : chosen.delete(name);
  for (const {entry, box} of list.rows) box.checked = chosen.has(entry.name);
  showAgain();
}

function listRow(entry) {
  const box = element("input", {
    type: "checkbox",
    onchange: () => choose([entry.name], box.checked),
  });
  box.checked = chosen.has(entry.name);
  const steps = entry.step === undefined || entry.step === null ?
      "" :
      integer(entry.step) + (entry.total_steps ? " of " + integer(entry.total_steps) : "");
  const row = element(
      "label", {class: "run", title: entry.error || utc(entry.began) || ""}, box,
      element("span", {class: "name"}, swatch(runColor(entry.name)), entry.name),
      statusWord(entry.state || ""), element("span", {class: "faint"}, steps));
  return {entry, box, row};
}

function filterRows(text) {
  for (const {entry, row} of list.rows)
    row.hidden = !entry.name.toLowerCase().includes(text.toLowerCase());
}

// Draws the list if it has changed. What is typed into the search stays.
function drawList() {
  list.body.hidden = !isCompared();
  const now = JSON.stringify(page.entries);
  if (now === list.drawn || list.body.hidden) return;
  list.drawn = now;
  const focused = document.activeElement && document.activeElement.closest("label.run");
  const at = list.rows.findIndex(({row}) => row === focused);
  list.rows = page.entries.map(listRow);
  if (!list.search) {
    list.search = element("input", {
      type: "search",
      placeholder: "search runs",
      "aria-label": "search runs",
      oninput: () => filterRows(list.search.value),
    });
    list.place = element("div", {class: "run-rows"});
    const all = (on) => () =>
        choose(list.rows.filter(({row}) => !row.hidden).map(({entry}) => entry.name), on);
    list.body.replaceChildren(
        element("h2", {}, "Runs"),
        element(
            "div", {class: "controls"}, list.search, element("button", {onclick: all(true)}, "all"),
            element("button", {onclick: all(false)}, "none")),
        list.place);
  }
  list.place.replaceChildren(...list.rows.map(({row}) => row));
  filterRows(list.search.value);
  if (at >= 0 && list.rows[at]) list.rows[at].box.focus();
}
