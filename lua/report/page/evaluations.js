// The evaluations and the results at the end, as tables.

const ROWS = 12;

function evaluationMetrics(runs) {
  return metricsOf(runs).filter(({column, base}) => column !== "train" && !SPEED.test(base));
}

// One row for each evaluation of a run, the newest first.
function evaluationTable(run, metrics) {
  const own = metrics.filter(({name}) => run.curves[name]);
  const data = uPlot.join(own.map(({name}) => [run.curves[name].x, run.curves[name].y]));
  const rows = data[0].map((step, at) => [step, ...own.map((_, i) => data[i + 1][at] ?? "-")]);
  return stepTable(rows.reverse(), own.map(({name}) => name));
}

function stepTable(rows, names) {
  const parts = [table(["step", ...names], rows.slice(0, ROWS))];
  if (rows.length > ROWS) {
    parts.push(
        element("p", {class: "faint"}, "the newest " + ROWS + " of " + integer(rows.length)));
  }
  return parts;
}

// One row for each run: its first, best and last value of a metric.
function firstBestLast(runs, {name, base}) {
  const which = bestOf(base);
  const row = (run) => {
    const curve = run.curves[name];
    const best = which && curve[which];
    return [
      runName(run), figureText(curve.y[0]),
      ...(which ? [best ? best.y : "-", best ? best.x : "-"] : []), figureText(last(curve)),
      curve.x.at(-1)
    ];
  };
  return table(
      ["run", "first", ...(which ? ["best", "at step"] : []), "last", "at step"], runs.map(row));
}

// The values of a metric of several runs side by side, one row for each step.
function sideBySide(runs, {name}) {
  const curves = runs.map((run) => run.curves[name]);
  const data = uPlot.join(curves.map((curve) => [curve.x, curve.y]));
  const rows = data[0].map((step, at) => [step, ...curves.map((_, i) => data[i + 1][at] ?? "-")]);
  return stepTable(rows.reverse(), runs.map(runName));
}

function evaluationBoard() {
  const body = element("div", {});
  let shown = [];
  let chosen = null;
  const compare = (metrics) => {
    const metric = metrics.find(({name}) => name === chosen) || metrics[0];
    const runs = shown.filter((run) => run.curves[metric.name]);
    const list = metrics.map(({name}) => [name, name]);
    const choose = chooser("metric", list, metric.name, (name) => {
      chosen = name;
      draw();
    });
    body.replaceChildren(
        element("div", {class: "controls"}, choose), firstBestLast(runs, metric),
        element("h3", {}, "By step"), ...sideBySide(runs, metric));
  };
  const draw = () => {
    const metrics = evaluationMetrics(shown);
    if (metrics.length === 0) return false;
    if (isCompared())
      compare(metrics);
    else
      body.replaceChildren(...evaluationTable(shown[0], metrics));
    return true;
  };
  return {
    body,
    of: (run) => run.curves,
    update(runs) {
      shown = runs;
      return draw();
    },
  };
}

// all_results.json of the runs, side by side.
function results(runs) {
  const having = runs.filter((run) => run.results);
  const rows = columnsOf(having.map((run) => Object.entries(run.results)));
  if (rows.length === 0) return [];
  return [table(
      ["name", ...(isCompared() ? having.map(runName) : ["value"])],
      rows.map(([name, values]) => [name, ...values.map((value) => value ?? "-")]))];
}
