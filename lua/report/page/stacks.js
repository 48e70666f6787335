// Stacked areas, one chart per run, that show how a total is composed.

// Names of the curves in a folder ("time/forward"); the one with the largest sum comes first, at
// the bottom.
function partsOf(run, folder) {
  const sum = (curve) => curve.y.reduce((all, y) => all + (y || 0), 0);
  return Object.keys(run.curves)
      .filter((name) => name.startsWith(folder) && sum(run.curves[name]) > 0)
      .sort((a, b) => sum(run.curves[b]) - sum(run.curves[a]));
}

// A single point as two, half a step to its left and right, so that its area is seen.
function widened(values, move = (value) => value) {
  return values.length === 1 ? [move(values[0], -0.5), move(values[0], 0.5)] : values;
}

// Lines whose heights are cumulative sums. The highest comes first, so that each area covers those
// behind it. A part has the same colour in the charts of all runs.
function stackLines(run, folder, colors) {
  const names = partsOf(run, folder);
  if (names.length === 0) return [];
  const data = uPlot.join(names.map((name) => [run.curves[name].x, run.curves[name].y]));
  const xs = placesOf(run, data[0]);
  if (xs === null) return [];
  const sums = new Array(xs.length).fill(0);
  const lines = names.map((name, i) => {
    const raw = xs.map((_, at) => data[i + 1][at] ?? 0);
    raw.forEach((value, at) => (sums[at] += value));
    return {
      row: words(name.slice(folder.length)),
      column: "",
      x: widened(xs, (x, by) => x + by),
      y: widened([...sums]),
      raw: widened(raw),
      color: colors.get(name)
    };
  });
  return lines.reverse();
}

function stackBoard(folder, title, how) {
  const board = new Board();
  let shown = [];
  const draw = () => {
    const names = shown.flatMap((run) => Object.keys(run.curves))
                      .filter((name) => name.startsWith(folder));
    const colors = new Map([...new Set(names)].sort().map((name, i) => [name, i % COLORS]));
    const wanted = shown
                       .map((run) => ({
                              title: isCompared() ? title + ": " + run.name : title,
                              how: {...how, fill: true},
                              lines: stackLines(run, folder, colors),
                            }))
                       .filter((each) => each.lines.length > 0);
    board.update(wanted);
    return wanted.length > 0;
  };
  redraws.push(draw);
  return {
    body: board.grid,
    update(runs) {
      shown = runs;
      return draw();
    },
  };
}
