// The section of the configuration.

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
            ["key", ...(isCompared() ? runs.map(runName) : ["value"]), "default"],
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
