// The section of curves: the lines of each chart, and the controls of all charts.

const DASHES = [undefined, [6, 4], [2, 3], [8, 3, 2, 3]];
let smoothing = 0;

// The running mean of TensorBoard's smoothing slider: exponential, with bias correction.
function smoothed(ys, weight) {
  let mean = 0;
  let mass = 0;
  return ys.map((y) => {
    if (y === null) return null;
    mean = mean * weight + (1 - weight) * y;
    mass = mass * weight + (1 - weight);
    return mean / mass;
  });
}

// A schedule is no noise, and of few points each counts.
function isSmoothed(metric, curve) {
  return smoothing > 0 && curve.x.length > FEW && metric.base !== "lr";
}

// The lines of a chart: if runs are compared, a colour for each run, else one for each metric.
// Evaluations are dashed.
function linesOf(runs, metrics, compared) {
  const columns = [...new Set(["train", ...metrics.map(({column}) => column)])];
  const colors = colorsOf(metrics.map(({base}) => base), true);
  return runs.flatMap((run) => metrics.flatMap((metric) => {
    const curve = run.curves[metric.name];
    const x = curve && placesOf(run, curve.x);
    if (!x) return [];
    const line = {
      row: compared ? run.name : shortName(metric.base),
      column: metric.column,
      x,
      y: curve.y,
      color: compared ? runColor(run.name) : colors.get(metric.base),
      dash: DASHES[columns.indexOf(metric.column) % DASHES.length],
    };
    if (!isSmoothed(metric, curve)) return [line];
    return [{...line, faint: true}, {...line, y: smoothed(curve.y, smoothing), smooth: true}];
  }));
}

function axisChooser() {
  const names = {step: "step", tokens: "tokens", time: "time"};
  return chooser("x axis", Object.entries(names), xAxis, setAxis);
}

function smoothingSlider(draw) {
  const said = element("output", {}, "0");
  const slider = element("input", {
    type: "range",
    min: "0",
    max: "0.99",
    step: "0.01",
    value: "0",
    oninput: () => {
      smoothing = Number(slider.value);
      said.textContent = slider.value;
      draw();
    },
  });
  return element("label", {}, "smoothing", slider, said);
}

function curveBoard() {
  const board = new Board();
  let shown = [];
  const draw = () =>
      board.update(chartsOf(shown, isCompared()).map(([title, metrics]) => ({
                                                       title,
                                                       how: unitOf(metrics[0].base),
                                                       lines: linesOf(shown, metrics, isCompared()),
                                                     })));
  redraws.push(draw);
  const thinned = element("span", {class: "faint"});
  const controls = element(
      "div", {class: "controls"}, axisChooser(), smoothingSlider(draw),
      element("button", {onclick: () => setZoom(null, null)}, "reset zoom"),
      element("span", {class: "faint"}, "drag across a chart to zoom; double click: all"), thinned);
  return {
    body: element("div", {}, controls, board.grid),
    update(runs) {
      shown = runs;
      const points = runs.flatMap(
          (run) => Object.values(run.curves)
                       .map((each) => (each.points > each.x.length ? each.points : 0)));
      const longest = Math.max(0, ...points);
      thinned.textContent = longest ?
          "of " + integer(longest) + " points the highest and lowest of neighbours are drawn" :
          "";
      draw();
      return runs.some((run) => Object.keys(run.curves).length > 0);
    },
  };
}
