// Curves over steps, drawn by uPlot. All charts zoom together: a range of steps that is selected in
// one chart by dragging is shown by all; a double click shows all steps again.

const charts = new Set();
let zoom = null;  // { min, max } of the steps that are shown; null: all
let zooming = false;

function setZoom(range, but) {
  zoom = range;
  zooming = true;
  for (const chart of charts) {
    if (chart.plot === null || chart.plot === but) continue;
    if (zoom)
      chart.plot.setScale("x", zoom);
    else
      chart.plot.setData(chart.plot.data);
  }
  zooming = false;
}

// Joins curves that have different steps into one table for uPlot: undefined where a curve has no
// point at a step, null for a value that is not finite.
function joined(lines) {
  if (lines.length === 0) return [[]];
  return uPlot.join(lines.map((line) => [line.x, line.y]));
}

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

function axes(show, steps) {
  const faint = () => styleValue("--faint");
  const line = {stroke: () => styleValue("--line"), width: 1};
  const axis = {stroke: faint, grid: line, ticks: line, font: "11px system-ui, sans-serif"};
  return [
    {...axis, size: 32, incrs: WHOLE_STEPS, values: (_, ticks) => ticks.map(tickNumber)},
    {
      ...axis,
      size: 70,
      ...(steps ? {incrs: steps} : {}),
      values: (_, ticks) => ticks.map((each) => (each === null ? "" : show(each)))
    },
  ];
}

// A figure that draws `lines`, { label, x, y, color, dash, faint, raw }. `how.show` formats a
// value, `how.tick` a label of the axis at multiples of one of `how.steps`. With `how.fill` the
// areas down to zero are filled, the first line behind the others.
class Chart {
  constructor(title, how) {
    this.how = {show: shortNumber, tick: tickNumber, ...how};
    this.plot = null;
    this.lines = [];
    this.log = false;
    this.logButton =
        element("button", {"aria-pressed": "false", onclick: () => this.toggle()}, "log");
    this.place = element("div", {class: "plot"});
    this.figure =
        element("figure", {}, element("figcaption", {}, title, this.logButton), this.place);
    new ResizeObserver(() => this.resize()).observe(this.place);
    charts.add(this);
  }

  toggle() {
    this.log = !this.log;
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.remake();
  }

  // Draws these lines. If only their numbers differ from the lines drawn before, updates the
  // existing plot.
  update(lines) {
    const same = (a, b) =>
        a.label === b.label && a.color === b.color && a.dash === b.dash && a.faint === b.faint;
    const before = this.lines;
    this.lines = lines;
    const positive = lines.every((line) => line.y.every((y) => y === null || y > 0));
    this.logButton.hidden = this.how.fill || !positive;
    const few = (list) => list.every((line) => line.x.length <= FEW);
    if (this.plot && lines.length === before.length &&
        lines.every((line, i) => same(line, before[i])) && few(lines) === few(before) &&
        (!this.log || positive)) {
      zooming = true;
      this.plot.setData(joined(lines), zoom === null);
      if (zoom) this.plot.setScale("x", zoom);
      zooming = false;
    } else {
      if (!positive) this.log = false;
      this.remake();
    }
  }

  series(line, i) {
    const fill = this.how.fill;
    const stroke = () => color(line.color) + (line.faint ? "55" : "");
    return {
      label: line.label,
      stroke,
      fill: fill ? () => color(line.color) : undefined,
      width: fill    ? 0 :
          line.faint ? 1 :
                       1.6,
      dash: line.dash,
      points: {show: !fill && !line.faint && line.x.length <= FEW, size: 5, fill: stroke},
      value: (plot, y, _, at) => this.how.show(line.raw && at !== null ? line.raw[at] : y),
    };
  }

  remake() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    const width = this.place.clientWidth;
    if (width === 0 || this.lines.length === 0) return;
    const how = {
      width,
      height: 230,
      scales: {
        x: {time: false},
        y: this.log       ? {distr: 3} :
            this.how.fill ? {range: (_, low, high) => [0, high || 1]} :
                            {},
      },
      axes: axes(this.how.tick, this.how.steps),
      cursor: {sync: {key: "steps"}, focus: {prox: 24}, drag: {x: true, y: false}},
      focus: {alpha: this.how.fill ? 1 : 0.35},
      series: [
        {label: "step", value: (_, x) => (x === null || x === undefined ? "-" : integer(x))},
        ...this.lines.map((line, i) => this.series(line, i)),
      ],
      hooks: {
        setScale: [
          (plot, key) => {
            if (key !== "x" || zooming || !this.plot) return;
            const {min, max} = plot.scales.x;
            setZoom({min, max}, plot);
          },
        ],
      },
    };
    zooming = true;
    this.plot = new uPlot(how, joined(this.lines), this.place);
    if (zoom) this.plot.setScale("x", zoom);
    zooming = false;
    this.plot.over.addEventListener("dblclick", () => setZoom(null, null));
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot === null)
      this.remake();
    else if (width > 0 && width !== this.plot.width)
      this.plot.setSize({width, height: 230});
  }
}

const FEW = 40;  // most points of a curve whose points are drawn as dots

// A grid of charts, by title. An update removes charts that are not wanted any more.
class Board {
  constructor() {
    this.grid = element("div", {class: "charts"});
    this.charts = new Map();
  }

  // wanted: [{ title, how, lines }]
  update(wanted) {
    const titles = new Set(wanted.map((each) => each.title));
    for (const [title, chart] of this.charts) {
      if (titles.has(title)) continue;
      chart.figure.remove();
      charts.delete(chart);
      this.charts.delete(title);
    }
    for (const {title, how, lines} of wanted) {
      if (!this.charts.has(title)) {
        const chart = new Chart(title, how);
        this.charts.set(title, chart);
        this.grid.append(chart.figure);
      }
      this.charts.get(title).update(lines);
    }
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) chart.remake();
});
