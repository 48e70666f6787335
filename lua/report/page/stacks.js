// Stacked areas over steps, one chart per run, that show how a total is composed.

// Names of the curves in a folder ("time/forward"); the one with the largest sum comes first, at
// the bottom.
function partsOf(run, folder) {
  const sum = (curve) => curve.y.reduce((all, y) => all + (y || 0), 0);
  return Object.keys(run.curves)
      .filter((name) => name.startsWith(folder) && sum(run.curves[name]) > 0)
      .sort((a, b) => sum(run.curves[b]) - sum(run.curves[a]));
}

// Lines whose heights are cumulative sums. The highest comes first, so that each area covers those
// behind it.
function stackLines(run, folder) {
  const names = partsOf(run, folder);
  if (names.length === 0) return [];
  const data = uPlot.join(names.map((name) => [run.curves[name].x, run.curves[name].y]));
  const xs = data[0];
  const sums = new Array(xs.length).fill(0);
  const lines = names.map((name, i) => {
    const raw = xs.map((_, at) => data[i + 1][at] ?? 0);
    raw.forEach((value, at) => (sums[at] += value));
    return {label: words(name.slice(folder.length)), x: xs, y: [...sums], raw, color: i};
  });
  return lines.reverse();
}

function stackBoard(folder, title, how) {
  const board = new Board();
  return {
    body: board.grid,
    update(runs) {
      const wanted = runs.map((run) => ({
                                title: runs.length > 1 ? title + ": " + run.name : title,
                                how: {...how, fill: true},
                                lines: stackLines(run, folder),
                              }))
                         .filter((each) => each.lines.length > 0);
      board.update(wanted);
      return wanted.length > 0;
    },
  };
}
