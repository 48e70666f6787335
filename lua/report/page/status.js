// How a run stands: its status in one word with the reason, and its most important numbers.

// A static page shows a run as it was when the page was written.
function reasonOf(run) {
  const {word, reason} = run.status;
  if (word !== "running" || page.live) return reason;
  return "running when this page was written, at " + utc(page.made);
}

function statusWord(word) {
  return element("strong", {class: "status-word " + word}, word);
}

function command(text) {
  return element("code", {}, text);
}

// The lines about a run's status, and what to do next.
function statusLine(run, name = element("span", {class: "faint"}, "status")) {
  const {word, checkpoint, resume} = run.status;
  const state = run.state || {};
  const line = element("p", {}, name, " ", statusWord(word), " ", reasonOf(run));
  const parts = [line];
  if (checkpoint)
    parts.push(element("p", {}, "resumable from " + checkpoint + ": ", command(resume)));
  if (word === "finished" && Array.isArray(state.next) && state.next.length > 0) {
    parts.push(element(
        "p", {class: "faint"},
        "next: ", ...state.next.flatMap((each, i) => [i > 0 ? ", " : "", command(each)])));
  }
  return element("div", {class: "status"}, ...parts);
}

function last(curve) {
  return curve && curve.y.length ? curve.y[curve.y.length - 1] : undefined;
}

function extreme(curve, which) {
  return curve && curve[which] ? curve[which].y : undefined;
}

function stepsOf(run) {
  const state = run.state || {};
  const {step: logged, total_steps: total} = {...run.standing, ...state};
  const step = Math.max(logged ?? 0, run.standing.step ?? 0);
  if (logged === undefined) return undefined;
  return integer(step) + (total ? " of " + integer(total) : "");
}

// The mean over the steps is the run's own; for older runs it is computed from the log, in which
// the time between two lines includes saves.
function speedFacts(run) {
  const own = (run.state || {}).tokens_per_second ?? undefined;
  return [
    ["tokens/s (mean, steps only)", figureText(own)],
    [
      "tokens/s (mean of the log)",
      own === undefined ? figureText(run.mean_tokens_per_second) : undefined
    ],
  ];
}

function memoryFacts(run) {
  const state = run.state || {};
  const host = state.peak_memory_bytes ?? extreme(run.curves.peak_memory_bytes, "most");
  const device = state.peak_device_bytes || extreme(run.curves.peak_device_reserved_bytes, "most");
  return [
    ["peak GPU memory", device ? bytes(device) : undefined],
    [device ? "peak host memory" : "peak memory", host ? bytes(host) : undefined],
  ];
}

// The last and the best value of the evaluations' main metrics.
function evaluationFacts(run) {
  const sets = evaluatedSets(run);
  return Object.keys(run.curves)
      .filter((name) => /^eval_(.*_)?(loss|reward|accuracy|rewards\/accuracies)$/.test(name))
      .sort()
      .flatMap((name) => {
        const which = bestOf(metricOf(name, sets).base);
        const best = run.curves[name][which];
        return [
          ["last " + name, figureText(last(run.curves[name]))],
          [
            "best " + name,
            best ? shortNumber(best.y) + " (step " + integer(best.x) + ")" : undefined
          ],
        ];
      });
}

// [name, text] pairs of a run's most important facts.
function facts(run) {
  const {standing, curves} = run;
  const state = run.state || {};
  const ended = run.status.word !== "running";
  const trained = state.train_loss ?? (ended && run.results ? run.results.train_loss : undefined);
  const time = state.train_runtime;
  return [
    ["steps", stepsOf(run)],
    ["epoch", figureText(state.epoch ?? standing.epoch, (each) => shortNumber(round(each, 3)))],
    ["last reward", figureText(last(curves.reward))],
    ["train_loss (mean)", figureText(trained)],
    ["last loss", figureText(last(curves.loss))],
    ...evaluationFacts(run),
    ...speedFacts(run),
    ["tokens", figureText(state.tokens ?? standing.tokens, integer)],
    ["training time", time === undefined ? standing.elapsed_time : clockTime(time)],
    ["time left", ended ? undefined : standing.remaining_time],
    ...memoryFacts(run),
  ];
}

// Rows of a table about several runs, [name, values], without those that no run has. A name that
// only some runs have keeps its place among the others.
function columnsOf(lists) {
  const names = [];
  for (const list of lists) {
    let at = 0;
    for (const [name] of list) {
      const found = names.indexOf(name);
      if (found < 0) names.splice(at, 0, name);
      at = (found < 0 ? at : found) + 1;
    }
  }
  const values = lists.map((list) => new Map(list));
  return names.map((name) => [name, values.map((each) => each.get(name))])
      .filter(([, row]) => row.some((value) => value !== undefined && value !== null));
}

function overview(runs) {
  if (!isCompared()) {
    return runs.flatMap(
        (run) =>
            [element(
                 "div", {class: "cards"}, ...facts(run).map(([name, value]) => card(name, value))),
             aboutTable([run])]);
  }
  const columns = columnsOf(runs.map(facts));
  const rows = runs.map(
      (run, i) =>
          [runName(run), statusWord(run.status.word),
           ...columns.map(([, values]) => values[i] ?? "")]);
  return [
    table(["run", "status", ...columns.map(([name]) => name)], rows),
    element("h3", {}, "Status of each run"),
    ...runs.map((run) => statusLine(run, runName(run))),
    element("details", {}, element("summary", {}, "About the runs"), aboutTable(runs)),
  ];
}
