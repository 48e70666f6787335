// Curves, drawn by uPlot.

const FEW = 40;      // most points of a curve whose points are drawn as dots
const HEIGHT = 230;  // pixels

// Joins curves that have different x into one table for uPlot: undefined where a curve has no
// point, null for a value that is not finite.
function joined(lines) {
  if (lines.length === 0) return [[]];
  return uPlot.join(lines.map((line) => [line.x, line.y]));
}

// A figure that draws `lines`, { row, column, x, y, color, dash, faint, raw }: row and column are
// those of the legend. `how.show` formats a value, `how.tick` a label of the axis at multiples of
// one of `how.steps`, `how.unit` is named beside the title. With `how.fill` the areas down to zero
// are filled, the first line behind the others, and `raw` has the values to show.
class Chart {
  constructor(title, how) {
    this.title = title;
    this.how = {show: shortNumber, tick: tickNumber, ...how};
    this.plot = null;
    this.lines = [];
    this.off = new Set();  // rows of the legend that are switched off
    this.log = false;
    this.logButton =
        element("button", {"aria-pressed": "false", onclick: () => this.toggleLog()}, "log");
    this.place = element("div", {
      class: "plot",
      tabindex: "0",
      role: "img",
      "aria-label": title + ": a chart; the arrow keys move along it",
      onkeydown: (event) => this.press(event),
    });
    this.legend = new Legend(this.how.fill ? null : (row) => this.toggleRow(row));
    const name = element("span", {}, title);
    if (this.how.unit) name.append(element("span", {class: "faint"}, "  " + this.how.unit));
    this.figure = element(
        "figure", {}, element("figcaption", {}, name, this.logButton), this.place,
        this.legend.place);
    new ResizeObserver(() => this.resize()).observe(this.place);
    charts.add(this);
  }

  toggleLog() {
    this.log = !this.log;
    this.remake();
  }

  toggleRow(row) {
    if (!this.off.delete(row)) this.off.add(row);
    this.remake();
  }

  // Moves the cursor with the arrow keys.
  press(event) {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!move || !this.plot) return;
    event.preventDefault();
    const xs = this.plot.data[0];
    const from = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : move < 0 ? xs.length : -1;
    const at = Math.min(Math.max(from + move, 0), xs.length - 1);
    this.plot.setCursor({left: this.plot.valToPos(xs[at], "x"), top: HEIGHT / 3});
  }

  // Draws these lines. If only their numbers differ from the lines drawn before, updates the
  // existing plot.
  update(lines) {
    const look = (list) => JSON.stringify([
      xAxis, ...list.map(({row, column, color, dash, faint}) => [row, column, color, dash, faint])
    ]);
    const few = (list) => list.every((line) => line.x.length <= FEW);
    const positive = lines.every((line) => line.y.every((y) => y === null || y > 0));
    const same = this.look === look(lines) && few(lines) === few(this.lines);
    this.lines = lines;
    this.look = look(lines);
    this.logButton.hidden = this.how.fill || !positive;
    if (this.plot && same && (!this.log || positive)) {
      zooming = true;
      this.plot.setData(joined(this.drawn()), zoom === null);
      if (zoom) this.plot.setScale("x", zoom);
      zooming = false;
      this.tell();
    } else {
      if (!positive) this.log = false;
      this.remake();
    }
  }

  // The lines in the order in which they are drawn: the first of the legend on top.
  drawn() {
    return this.how.fill ? this.lines : [...this.lines].reverse();
  }

  series(line) {
    const fill = this.how.fill;
    const stroke = () => color(line.color) + (line.faint ? "55" : "");
    return {
      label: line.row + " " + line.column,
      show: !this.off.has(line.row),
      stroke,
      fill: fill ? () => color(line.color) : undefined,
      width: fill    ? 0 :
          line.faint ? 1 :
                       1.6,
      dash: line.dash,
      points: {show: !fill && !line.faint && line.x.length <= FEW, size: 5, fill: stroke},
    };
  }

  // Shows in the legend the values at the cursor, or the last values.
  tell() {
    const {plot, lines} = this;
    if (!plot) return;
    const hovered = plot.cursor.left >= 0 && plot.cursor.idx !== null;
    const drawn = this.drawn();
    const texts = lines.map((line) => {
      const s = drawn.indexOf(line) + 1;
      const ys = plot.data[s];
      const at = hovered ? plot.cursor.idxs[s] : ys.findLastIndex((y) => y !== undefined);
      if (at === null || at === undefined || at < 0) return "";
      const value = line.raw ? line.raw[at] : ys[at];
      return value === null ? "NaN or inf" : this.how.show(value);
    });
    const place = hovered ? placeText(plot.data[0][plot.cursor.idx]) : "last";
    this.legend.show(place + (lines.some((line) => line.smooth) ? ", smoothed" : ""), texts);
  }

  options(width) {
    return {
      width,
      height: HEIGHT,
      legend: {show: false},
      scales: {
        x: {time: false},
        y: this.log       ? {distr: 3} :
            this.how.fill ? {range: (_, low, high) => [0, high || 1]} :
                            {},
      },
      axes: plotAxes(this.how),
      cursor: {
        sync: {key: "x"},
        focus: {prox: NEAR},
        drag: {x: true, y: false},
        dataIdx: nearest,
      },
      focus: {alpha: this.how.fill ? 1 : 0.35},
      series: [{label: AXES[xAxis].label}, ...this.drawn().map((line) => this.series(line))],
      hooks: {
        setCursor: [() => this.tell()],
        setScale: [
          (plot, key) => {
            if (key !== "x" || zooming || !this.plot) return;
            const {min, max} = plot.scales.x;
            setZoom({min, max}, plot);
          },
        ],
      },
    };
  }

  remake() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.legend.update(this.lines, this.off, Boolean(this.how.fill));  // the largest area first
    const width = this.place.clientWidth;
    if (width === 0 || this.lines.length === 0) return;
    zooming = true;
    this.plot = new uPlot(this.options(width), joined(this.drawn()), this.place);
    if (zoom) this.plot.setScale("x", zoom);
    zooming = false;
    this.plot.over.addEventListener("dblclick", () => setZoom(null, null));
    this.tell();
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot === null)
      this.remake();
    else if (width > 0 && width !== this.plot.width)
      this.plot.setSize({width, height: HEIGHT});
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) chart.remake();
});
