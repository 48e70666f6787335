// Assigns the metrics of trainer_log.jsonl to charts, and to the lines in them.

const SPEED = /^eval_(.*_)?(runtime|samples_per_second|steps_per_second)$/;
const STACKED = /^(time|memory)\//;
const DASHES = [undefined, [6, 4], [2, 3], [8, 3, 2, 3]];

// Charts of several metrics: the first pattern that matches a metric decides. A metric that matches
// none gets its own chart, or one together with the metrics of its folder.
const TOGETHER = [
  ["Loss", /^(eval_)?(.*_)?loss(_per_token)?$/],
  ["Learning rate", /^lr$/],
  ["Gradient norm", /^grad_norm$/],
  ["Tokens a second", /^tokens_per_second$/],
  ["Model FLOPs utilization", /^mfu(_causal)?$/],
  ["Rewards", /^(eval_)?(rewards\/(chosen|rejected|margins)|reward)$/],
  ["Accuracy", /^(eval_)?(rewards\/accuracies|accuracy)$/],
  ["Memory", /^[^/]*_bytes$/],
  ["Speed of evaluations", SPEED],
];

function chartOf(name) {
  for (const [title, pattern] of TOGETHER) {
    if (pattern.test(name)) return title;
  }
  const base = name.replace(/^eval_/, "");
  const folder = base.match(/^([^/]+)\//);
  return folder ? folder[1] : words(base);
}

// Returns [title, names] of each chart, the charts of TOGETHER first.
function chartsOf(runs) {
  const names = new Set();
  for (const run of runs) Object.keys(run.curves).forEach((name) => names.add(name));
  // The log has the accuracy of preferences under two names, one of them LLaMA-Factory's.
  if (names.has("rewards/accuracies")) names.delete("accuracy");
  const byTitle = new Map(TOGETHER.map(([title]) => [title, []]));
  for (const name of [...names].sort()) {
    if (STACKED.test(name)) continue;
    const title = chartOf(name);
    if (!byTitle.has(title)) byTitle.set(title, []);
    byTitle.get(title).push(name);
  }
  const speed = byTitle.get("Speed of evaluations");
  byTitle.delete("Speed of evaluations");
  byTitle.set("Speed of evaluations", speed);  // at the end
  return [...byTitle].filter(([, list]) => list.length > 0);
}

// Sorts names: training before evaluation, then short names before long ones.
function inOrder(names) {
  const rank = (name) => (name.startsWith("eval_") ? 1 : 0);
  return names.sort((a, b) => rank(a) - rank(b) || a.length - b.length || (a < b ? -1 : 1));
}

// The lines of a chart. With one run each metric has a colour; with several, each run has a colour
// and each metric a dash pattern.
function linesOf(runs, names, weight) {
  const lines = [];
  runs.forEach((run, r) => {
    names.forEach((name, m) => {
      const curve = run.curves[name];
      if (!curve) return;
      const line = {
        label: runs.length > 1 ? run.name + (names.length > 1 ? ": " + words(name) : "") :
                                 words(name),
        x: curve.x,
        y: curve.y,
        color: runs.length > 1 ? r : m,
        dash: runs.length > 1 ? DASHES[m % DASHES.length] : undefined,
      };
      const smooth = weight > 0 && curve.x.length > FEW;
      if (smooth) lines.push({...line, label: line.label + " (each)", faint: true});
      lines.push(smooth ? {...line, y: smoothed(curve.y, weight)} : line);
    });
  });
  return lines;
}

function howOf(title) {
  return title === "Memory" ? {show: bytes, tick: tickBytes, steps: BYTE_STEPS} : {};
}

let smoothing = 0;

function curveBoard() {
  const board = new Board();
  let shown = [];
  const draw = () => board.update(
      chartsOf(shown).map(([title, names]) => ({
                            title,
                            how: howOf(title),
                            lines: linesOf(shown, inOrder(names), smoothing),
                          })),
  );
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
  const thinned = element("span", {class: "faint"});
  const controls = element(
      "div",
      {class: "controls"},
      element("label", {}, "smoothing", slider, said),
      element("button", {onclick: () => setZoom(null, null)}, "all steps"),
      element("span", {class: "faint"}, "drag across a chart to zoom, double click to see all"),
      thinned,
  );
  return {
    body: element("div", {}, controls, board.grid),
    update(runs) {
      shown = runs;
      const longest = Math.max(
          0,
          ...runs.flatMap(
              (run) => Object.values(run.curves)
                           .map((each) => (each.points > each.x.length ? each.points : 0)),
              ),
      );
      thinned.textContent = longest ?
          "of " + integer(longest) + " points the highest and lowest of neighbours are drawn" :
          "";
      draw();
      return runs.some((run) => Object.keys(run.curves).length > 0);
    },
  };
}
