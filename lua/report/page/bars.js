// Bar charts with one row per item: lengths of documents, times of ranks, peak memory.

// Draws rows, [{ label, parts: [{ value, color }], text }], as stacked bars; a full bar means
// `most`.
function bars(rows, most) {
  const whole =
      most || Math.max(...rows.map((row) => row.parts.reduce((sum, p) => sum + p.value, 0)));
  return element(
      "div",
      {class: "bars"},
      ...rows.flatMap(
          (row) =>
              [element("span", {}, row.label),
               element(
                   "span",
                   {class: "bar", title: row.text},
                   ...row.parts.map(
                       (part) => styled(element("span", {}), {
                         width: (100 * part.value) / (whole || 1) + "%",
                         background: "var(--c" + (part.color % COLORS) + ")",
                       }),
                       ),
                   ),
               element("span", {class: "number"}, row.text),
  ]),
  );
}

function swatch(i) {
  return styled(element("span", {class: "swatch"}), {background: "var(--c" + (i % COLORS) + ")"});
}

// A run's name with its colour.
function runName(run) {
  return element("span", {title: run.folder}, swatch(runColor(run.name)), run.name);
}

function key(names) {
  return element("p", {class: "faint"}, ...names.flatMap((name, i) => [swatch(i), name + "  "]));
}

function lengthBars(data) {
  return bars(
      data.lengths.map((each) => ({
                         label: integer(each.from) + " to " + integer(each.to),
                         parts: [{value: each.rows, color: 0}],
                         text: integer(each.rows),
                       })),
  );
}

const MOST_RANKS = 16;

// Draws the times of ranks from ranks.jsonl; the ranks that worked longest come first. A single
// rank has none to be compared with.
function rankBars(ranks) {
  const order = ranks.busy.map((_, rank) => rank).sort((a, b) => ranks.busy[b] - ranks.busy[a]);
  const worst = order[0];
  const mean = ranks.busy.reduce((sum, each) => sum + each, 0) / ranks.busy.length;
  const often = ranks.slowest.indexOf(Math.max(...ranks.slowest));
  const rows =
      order.slice(0, MOST_RANKS).map((rank) => ({
                                       label: "rank " + rank,
                                       parts: [
                                         {value: ranks.busy[rank] / ranks.lines, color: 0},
                                         {value: ranks.waiting[rank] / ranks.lines, color: 7},
                                       ],
                                       text: seconds(ranks.busy[rank] / ranks.lines) + " + " +
                                           seconds(ranks.waiting[rank] / ranks.lines),
                                     }));
  return [
    element(
        "p",
        {},
        "Rank " + worst +
            " has the most work of its own: " + percent(ranks.busy[worst] / mean - 1) +
            " more than the mean. Rank " + often + " was the slowest at " +
            integer(ranks.slowest[often]) + " of " + integer(ranks.lines) + " logging steps.",
        ),
    bars(rows),
    element(
        "p", {class: "faint"},
        "seconds a line of ranks.jsonl: own work (blue) + waiting (grey)" +
            (order.length > MOST_RANKS ? "; the first " + MOST_RANKS + " of " + order.length : "")),
  ];
}

// The peak of memory_report.json. On a GPU the allocator counts all of it. On a CPU the report
// counts what came after the start, apart from the process's whole memory, which the overview has.
function memoryBars(memory) {
  const {rank, parts: host, device, totals} = memory.worst;
  const parts = device || host;
  const names = Object.keys(parts).filter((name) => parts[name] > 0);
  names.sort((a, b) => parts[b] - parts[a]);
  const sum = names.reduce((all, name) => all + parts[name], 0);
  const said = device ? "on its GPU: " + bytes(sum) + " by category; tensors of the allocator " +
          bytes(totals.device_allocated) :
                        bytes(sum) + " by category; the kernel counts " + bytes(totals.kernel) +
          " above the " + bytes(totals.start_level) + " after the start";
  return [
    element(
        "p", {},
        (memory.ranks.length > 1 ? "At the peak of rank " + rank + ", " : "At the peak, ") + said),
    bars(names.map((name) => ({
                     label: words(name),
                     parts: [{value: parts[name], color: 0}],
                     text: bytes(parts[name]),
                   }))),
  ];
}
