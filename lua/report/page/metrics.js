// The metrics of trainer_log.jsonl: to which chart each belongs, and in which unit it is.

const STACKED = /^(time|memory)\//;
const SPEED = /^(runtime|samples_per_second|steps_per_second)$/;  // of evaluations

// Charts of metrics that belong together: the first pattern that matches a metric decides. A metric
// that matches none gets its own chart, or one together with the metrics of its folder. The charts
// are in this order; before them, for training by rewards, those of REWARDED.
const TOGETHER = [
  ["Loss", /^(.*_)?loss(_per_token)?$/],
  ["Rewards", /^rewards\/(chosen|rejected|margins)$/],
  ["Accuracy", /^(rewards\/accuracies|accuracy)$/],
  ["Reward", /^reward$/],
  ["Reward functions", /^rewards\//],
  ["KL divergence", /^kl$/],
  ["Completion length", /^completions\/.*length$/],
  ["Entropy", /^entropy$/],
  ["Learning rate", /^lr$/],
  ["Gradient norm", /^grad_norm$/],
  ["Throughput", /^tokens_per_second$/],
  ["Model FLOPs utilization", /^mfu(_causal)?$/],
  ["Memory", /^[^/]*_bytes$/],
];
const REWARDED = ["Reward", "Reward functions", "KL divergence", "Completion length", "Entropy"];
const AT_THE_END = {
  runtime: "Evaluation time",
  samples_per_second: "Evaluation samples per second",
  steps_per_second: "Evaluation batches per second",
};

const BYTES = {
  show: bytes,
  tick: tickBytes,
  steps: BYTE_STEPS
};
const UNITS = [
  [/_bytes$/, BYTES],
  [/^tokens_per_second$/, {unit: "tokens/s"}],
  [/^mfu/, {show: percent, tick: percent}],
  [/^(runtime|runtime\/.*)$/, {unit: "s", show: seconds}],
  [/^samples_per_second$/, {unit: "samples/s"}],
  [/^steps_per_second$/, {unit: "batches/s"}],
  [/^completions\/.*length$/, {unit: "tokens"}],
  [/^(entropy|kl)$/, {unit: "nats"}],
];

function unitOf(base) {
  const found = UNITS.find(([pattern]) => pattern.test(base));
  return found ? found[1] : {};
}

function evaluatedSets(run) {
  return ((run.data && run.data.evaluated) || []).map((each) => each.name);
}

// Splits a name of the log: "eval_loss" is the metric "loss" of "eval". With several evaluation
// data sets, "eval_talks_loss" is "loss" of "eval talks".
function metricOf(name, sets) {
  if (!name.startsWith("eval_")) return {name, base: name, column: "train"};
  const rest = name.slice("eval_".length);
  const set = sets.find((each) => rest.startsWith(each + "_"));
  if (set === undefined) return {name, base: rest, column: "eval"};
  return {name, base: rest.slice(set.length + 1), column: "eval " + set};
}

function chartOf({base, column}) {
  if (column !== "train" && SPEED.test(base)) return AT_THE_END[base];
  const found = TOGETHER.find(([, pattern]) => pattern.test(base));
  if (found) return found[0];
  const folder = base.match(/^([^/]+)\//);
  return folder ? folder[1] : base;
}

// The metrics of the runs' curves without the stacked ones: training before evaluation, short names
// before long ones.
function metricsOf(runs) {
  const sets = runs.flatMap(evaluatedSets);
  const names = new Set(runs.flatMap((run) => Object.keys(run.curves)));
  // The log has the accuracy of preferences under two names, one of them LLaMA-Factory's.
  if (names.has("rewards/accuracies")) names.delete("accuracy");
  const order = (a, b) => (a.column !== "train") - (b.column !== "train") ||
      a.base.length - b.base.length || (a.name < b.name ? -1 : 1);
  return [...names]
      .filter((name) => !STACKED.test(name))
      .map((name) => metricOf(name, sets))
      .sort(order);
}

// The metrics of each chart, [title, metrics], in the order of the page. If runs are compared, each
// metric has a chart of its own, so that in each the colour says the run.
function chartsOf(runs, compared) {
  const byTitle = new Map();
  const rewarded = runs.some((run) => run.curves.reward);
  const first = [...(rewarded ? REWARDED : []), ...TOGETHER.map(([title]) => title)];
  const rank = (title) => {
    const at = first.indexOf(title);
    if (at >= 0) return at;
    return Object.values(AT_THE_END).includes(title) ? first.length + 1 : first.length;
  };
  for (const metric of metricsOf(runs)) {
    const title = chartOf(metric);
    if (!byTitle.has(title)) byTitle.set(title, []);
    byTitle.get(title).push(metric);
  }
  const ordered = [...byTitle].sort(
      ([a], [b]) => rank(a) - rank(b) || (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
  return compared ? ordered.flatMap(([title, metrics]) => apart(title, metrics)) : ordered;
}

// One chart for each metric of a chart. "Loss" with two metrics is "Loss" and "Loss:
// loss_per_token".
function apart(title, metrics) {
  const bases = [...new Set(metrics.map(({base}) => base))];
  return bases.map((base) => {
    const name = shortName(base);
    const own = bases.length === 1 || name === title.toLowerCase();
    return [own ? title : title + ": " + name, metrics.filter((each) => each.base === base)];
  });
}

// "completions/mean_length" is "mean_length" in the chart of its folder, and the unit of
// "peak_memory_bytes" is said by its values.
function shortName(base) {
  return base.replace(/^(completions|rewards|clip_ratio|runtime|sampling|logps|logits)\//, "")
      .replace(/_bytes$/, "");
}

// Whether less or more of a metric is better: "least", "most", or undefined if neither is.
function bestOf(base) {
  if (/loss|perplexity|error|runtime/.test(base)) return "least";
  if (/accura|reward|margin|bleu|rouge|f1$|exact/.test(base) && !/std/.test(base)) return "most";
  return undefined;
}
