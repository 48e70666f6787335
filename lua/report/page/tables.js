// Texts and tables: the state of a run, its evaluations, its configuration, its data.

function last(curve) {
  return curve && curve.y.length ? curve.y[curve.y.length - 1] : undefined;
}

function stateOf(run) {
  if (run.standing.finished) return "done";
  return run.standing.step === undefined ? "no step logged yet" : "running, or broken off";
}

function stepsOf({step, total_steps: total}) {
  if (step === undefined) return undefined;
  return integer(step) + (total > step ? " of " + integer(total) : "");
}

function card(name, value) {
  if (value === undefined || value === null || value === "-") return null;
  return element(
      "div", {class: "card"}, element("span", {class: "faint"}, name),
      element("span", {class: "value"}, value));
}

function least(curve) {
  const numbers = curve ? curve.y.filter((y) => y !== null) : [];
  return numbers.length ? Math.min(...numbers) : undefined;
}

// [name, text] pairs of a run's most important facts.
function facts(run) {
  const {standing, curves} = run;
  const number = (value) =>
      (value === undefined || value === null ? undefined : shortNumber(value));
  return [
    ["state", stateOf(run)],
    ["steps", stepsOf(standing)],
    ["epoch", number(standing.epoch)],
    ["last loss", number(last(curves.loss))],
    ["least eval_loss", number(least(curves.eval_loss))],
    ["last reward", number(last(curves.reward))],
    ["time", standing.elapsed_time],
    ["time left", standing.finished ? undefined : standing.remaining_time],
    ["tokens a second", number(last(curves.tokens_per_second))],
    ["peak memory", curves.peak_memory_bytes ? bytes(last(curves.peak_memory_bytes)) : undefined],
  ];
}

function overview(runs) {
  if (runs.length === 1) {
    const list = facts(runs[0]).map(([name, value]) => card(name, value));
    return [
      element("div", {class: "cards"}, ...list),
      element("p", {class: "faint"}, runs[0].folder),
    ];
  }
  const told = runs.map(facts);
  const columns = told[0]
                      .map(([name], i) => [name, told.map((list) => list[i][1] || "-")])
                      .filter(([, values]) => values.some((value) => value !== "-"));
  const name = (run, i) => element("span", {title: run.folder}, swatch(i), run.name);
  return [
    table(
        ["run", ...columns.map(([name]) => name)],
        runs.map((run, i) => [name(run, i), ...columns.map(([, values]) => values[i])])),
  ];
}

const ROWS = 12;

// Tables of the evaluations during training, one row each, the newest first; and of the final
// results.
function evaluations(runs) {
  const parts = [];
  for (const run of runs) {
    const names = inOrder(
        Object.keys(run.curves).filter((name) => name.startsWith("eval_") && !SPEED.test(name)));
    const title = runs.length > 1 ? [element("h3", {}, run.name)] : [];
    const part = [];
    if (names.length > 0) {
      const data = uPlot.join(names.map((name) => [run.curves[name].x, run.curves[name].y]));
      const rows =
          data[0].map((step, at) => [step, ...names.map((_, i) => data[i + 1][at] ?? "-")]);
      rows.reverse();
      part.push(table(["step", ...names.map((name) => words(name.slice(5)))], rows.slice(0, ROWS)));
      if (rows.length > ROWS) {
        part.push(
            element("p", {class: "faint"}, "the newest " + ROWS + " of " + integer(rows.length)));
      }
    }
    const results = Object.entries(run.results || {});
    if (results.length > 0) {
      part.push(
          element(
              "details", {}, element("summary", {}, "Results at the end"),
              table(["number", "value"], results)),
      );
    }
    if (part.length > 0) parts.push(...title, ...part);
  }
  return parts;
}

function settingRows(runs, only) {
  const byKey = new Map();
  runs.forEach((run, r) => {
    for (const each of run.settings || []) {
      if (!byKey.has(each.key)) byKey.set(each.key, {...each, values: [], changed: false});
      const row = byKey.get(each.key);
      row.values[r] = each.value;
      row.changed = row.changed || each.changed;
    }
  });
  const rows = [...byKey.values()];
  for (const row of rows) row.differs = runs.some((_, r) => row.values[r] !== row.values[0]);
  return rows.filter((row) => only === "all" || (only === "differs" ? row.differs : row.changed));
}

// The configuration. At first it shows the keys that differ between runs, or for a single run those
// that differ from the defaults.
function settingsBoard() {
  const body = element("div", {});
  const several = [["differs", "what differs between the runs"]];
  const choices = [["changed", "what is not the default"], ["all", "all keys"]];
  let only = null;
  let shown = [];
  const draw = () => {
    const runs = shown.filter((run) => (run.settings || []).length > 0);
    if (runs.length === 0) return false;
    const list = runs.length > 1 ? several.concat(choices) : choices;
    if (!list.some(([value]) => value === only)) only = list[0][0];
    const rows = settingRows(runs, only);
    body.replaceChildren(
        element(
            "div", {class: "controls"},
            chooser(
                "show", list, only,
                (value) => {
                  only = value;
                  draw();
                })),
        table(
            ["key", ...(runs.length > 1 ? runs.map((run) => run.name) : ["value"]), "default"],
            rows.map(
                (row) =>
                    [row.key, ...runs.map((_, r) => row.values[r] ?? "-"), row.default ?? "-"]),
            ),
    );
    if (rows.length === 0) body.append(element("p", {}, "none"));
    return true;
  };
  return {
    body,
    of: (run) => run.settings,
    update(runs) {
      shown = runs;
      return draw();
    },
  };
}

const COUNTS = [
  "rows", "examples", "tokens", "learnt", "truncated", "starved", "nothing_learnt", "longest",
  "left_over"
];

function dataParts(runs) {
  const parts = [];
  for (const run of runs) {
    const data = run.data;
    if (!data) continue;
    if (runs.length > 1) parts.push(element("h3", {}, run.name));
    parts.push(
        element(
            "div",
            {class: "cards"},
            ...COUNTS.filter((name) => data[name])
                .map((name) => card(words(name), integer(data[name]))),
            ),
    );
    if ((data.lengths || []).length > 0) {
      parts.push(element("h3", {}, "Rows by their length in tokens"), lengthBars(data));
    }
    for (const [name, title] of [
             ["skipped", "Rows left out"], ["noted", "Rows kept, perhaps not as meant"]]) {
      if ((data[name] || []).length === 0) continue;
      parts.push(
          element("h3", {}, title),
          table(
              ["why", "rows", "the first"],
              data[name].map((kind) => [kind.what, kind.count, kind.first])),
      );
    }
  }
  return parts;
}
