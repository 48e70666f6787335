// All charts zoom together: a range that is selected in one chart by dragging is shown by all; a
// double click shows everything again.

const charts = new Set();
let zoom = null;      // { min, max } on the x axis; null: all
let zooming = false;  // whether a change of a scale is ours, and not the user's

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
