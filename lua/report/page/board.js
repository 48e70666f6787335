// A grid of charts, by title, in the order in which they are wanted. An update removes charts that
// are not wanted any more.
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
    wanted.forEach(({title, how, lines}, i) => {
      if (!this.charts.has(title)) this.charts.set(title, new Chart(title, how));
      const {figure} = this.charts.get(title);
      if (this.grid.children[i] !== figure) this.grid.insertBefore(figure, this.grid.children[i]);
      this.charts.get(title).update(lines);
    });
  }
}

// What the page draws, in its order, for tests: titles, and of each line its names, colour and
// points.
function drawnCharts() {
  return [...document.querySelectorAll("figure")]
      .map((figure) => [...charts].find((chart) => chart.figure === figure))
      .filter((chart) => chart && chart.plot)
      .map((chart) => ({
             title: chart.title,
             unit: chart.how.unit,
             lines: chart.lines.map(
                 ({row, column, x, y, color: i, dash, faint}) =>
                     ({row, column, x, y, color: color(i), dashed: Boolean(dash), faint})),
           }));
}
