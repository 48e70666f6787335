// The x axis of all charts: steps, tokens or time.

const TIME_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05,  0.1,   0.2,   0.5,
  1,     2,     5,     10,   15,   30,    60,    120,   300,
  600,   900,   1800,  3600, 7200, 10800, 21600, 43200, ...WHOLE_STEPS.map((each) => 86400 * each)
];

// "90 s", "5 min", "1.5 h", "2 d".
function tickTime(value) {
  const [size, unit] =
      [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => Math.abs(value) >= 2 * size) ||
      [1, "s"];
  return Number((value / size).toPrecision(3)) + " " + unit;
}

// "1.5M" for 1,500,000.
function tickCount(value) {
  const [size, unit] =
      [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size) ||
      [1, ""];
  return Number((value / size).toPrecision(4)) + unit;
}

const AXES = {
  step: {label: "step", show: integer, tick: tickNumber, steps: WHOLE_STEPS},
  tokens: {label: "tokens", show: integer, tick: tickCount, steps: WHOLE_STEPS},
  time: {
    label: "time since the run began",
    show: (value) => (value < 120 ? seconds(value) : clockTime(value)),
    tick: tickTime,
    steps: TIME_STEPS,
  },
};

let xAxis = "step";
const redraws = [];  // functions that draw a section's charts again

function setAxis(name) {
  xAxis = name;
  zoom = null;
  for (const redraw of redraws) redraw();
}

// The places of these steps, ascending, on the chosen axis; null if the run's log does not say
// them. Between two steps whose place it says they are interpolated.
function placesOf(run, steps) {
  const axis = run.axes && run.axes[xAxis];
  if (xAxis === "step") return steps;
  if (!axis || axis.x.length === 0) return null;
  const {x, y} = axis;
  let at = 0;
  return steps.map((step) => {
    while (at < x.length && x[at] < step) ++at;
    if (at === x.length) return y[at - 1];
    if (x[at] === step) return y[at];
    const [fromX, fromY] = at > 0 ? [x[at - 1], y[at - 1]] : [0, 0];
    return fromY + ((y[at] - fromY) * (step - fromX)) / (x[at] - fromX);
  });
}

// A place on the x axis as text: "step 120", "1,200 tokens", "0:02:00".
function placeText(x) {
  const {label, show} = AXES[xAxis];
  return xAxis === "step" ? label + " " + show(x) : show(x) + (xAxis === "tokens" ? " tokens" : "");
}

// The axes of a chart, for uPlot.
function plotAxes(how) {
  const faint = () => styleValue("--faint");
  const line = {stroke: () => styleValue("--line"), width: 1};
  const font = "11px system-ui, sans-serif";
  const axis = {stroke: faint, grid: line, ticks: line, font};
  const {label, tick, steps} = AXES[xAxis];
  return [
    {
      ...axis,
      size: 28,
      label,
      labelSize: 16,
      labelGap: 0,
      labelFont: font,
      space: 48,
      incrs: steps,
      values: (_, ticks) => ticks.map(tick),
    },
    {
      ...axis,
      size: (_, texts) =>
          Math.max(40, 22 + 6.5 * Math.max(0, ...(texts || []).map((each) => each.length))),
      ...(how.steps ? {incrs: how.steps} : {}),
      values: (_, ticks) => ticks.map((each) => (each === null ? "" : how.tick(each))),
    },
  ];
}

const NEAR = 24;  // pixels from the cursor to the points whose values the legend shows

// The index of the point of series `s` that is nearest to the cursor; null if none is near.
function nearest(plot, s, hovered) {
  const [xs, ys] = [plot.data[0], plot.data[s]];
  if (ys[hovered] !== undefined) return hovered;
  const distance = (i) => Math.abs(plot.valToPos(xs[i], "x") - plot.cursor.left);
  let [low, high] = [hovered, hovered];
  while (low >= 0 && ys[low] === undefined) --low;
  while (high < ys.length && ys[high] === undefined) ++high;
  const found = [low, high].filter((i) => i >= 0 && i < ys.length && distance(i) <= NEAR);
  return found.length === 0 ? null : found.sort((a, b) => distance(a) - distance(b))[0];
}
