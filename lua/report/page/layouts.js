// The section about layouts: tables next to the drawings, and lists to choose a layout.

// For causal attention: how many rows of keys of each place are attended to by queries of each
// other place.
function keysSeen(micro, spans) {
  const seen = Array.from({length: micro.contexts}, () => new Array(micro.contexts).fill(0));
  const last = new Map();  // by place and document: the end of its queries
  for (const span of spans) {
    const name = span.place + " " + span.document;
    last.set(name, Math.max(last.get(name) || 0, span.end));
  }
  for (const span of spans) {
    for (let reader = 0; reader < micro.contexts; ++reader) {
      const end = last.get(reader + " " + span.document) || 0;
      if (reader !== span.place)
        seen[span.place][reader] += Math.max(0, Math.min(span.end, end) - span.begin);
    }
  }
  return seen;
}

function seenTable(micro, spans) {
  const seen = keysSeen(micro, spans);
  const names = seen.map((_, place) => ranksOf(micro, place));
  return table(
      ["keys of", ...names.map((name) => "for " + name)],
      seen.map(
          (row,
           place) => [names[place], ...row.map((rows, reader) => (reader === place ? "-" : rows))]),
  );
}

const MOST_PLACES = 16;

function loadBars(micro) {
  const ranks = micro.tokens.map((_, rank) => rank);
  const list = (values, show) => bars(
      ranks.map((rank) => ({
                  label: "rank " + rank,
                  parts: [{value: values[rank], color: colorOfRank(micro, rank)}],
                  text: show(values[rank]),
                })),
  );
  const parts = [element("div", {}, element("h3", {}, "Tokens"), list(micro.tokens, integer))];
  if (micro.area) {
    parts.push(
        element(
            "div",
            {},
            element(
                "h3", {},
                "Work of a layer: pairs times heads; the most is " +
                    Number(micro.balance.toPrecision(4)) + " of the mean"),
            list(micro.area, integer),
            ),
        element(
            "div", {}, element("h3", {}, "Sent in a layer's forward"), list(micro.forward, bytes)),
        element(
            "div", {}, element("h3", {}, "Sent in a layer's backward"),
            list(micro.backward, bytes)),
    );
  }
  return element("div", {class: "side"}, ...parts);
}

function colorOfRank(micro, rank) {
  return micro.placement === "head_first" ? Math.floor(rank / micro.heads) : rank % micro.contexts;
}

function microDrawing(micro, state, again) {
  if (!micro.spans) {
    return [
      element("p", {}, integer(micro.documents) + " documents: too many to draw"), loadBars(micro)
    ];
  }
  const spans = spansOf(micro);
  const said = element("p", {class: "tip"}, "Point at a token or a tile.");
  const byLength =
      micro.lengths.map((_, d) => d).sort((a, b) => micro.lengths[b] - micro.lengths[a]);
  if (state.document !== "all" && state.document >= micro.lengths.length) state.document = "all";
  const choices = [["all", "all"]].concat(
      byLength.slice(0, 40).map((d) => [d, d + ": " + integer(micro.lengths[d]) + " tokens"]),
  );
  const parts = [
    element(
        "p", {class: "faint"},
        micro.strategy + "; " + integer(micro.documents) + " documents, " +
            integer(micro.lengths.reduce((sum, each) => sum + each, 0)) + " tokens, " +
            "divided " + micro.ownership),
    element("h3", {}, "Documents over ranks"),
    micro.contexts <= COLORS ?
        key(Array.from({length: micro.contexts}, (_, place) => ranksOf(micro, place))) :
        null,
    ownersDrawing(micro, spans, said),
    said,
    element(
        "div",
        {class: "side"},
        element(
            "div",
            {},
            element("h3", {}, "Tiles of attention"),
            element(
                "div", {class: "controls"},
                chooser(
                    "document", choices, state.document,
                    (chosen) => {
                      state.document = chosen;
                      again();
                    })),
            tilesDrawing(micro, spans, state.document, said),
            element(
                "p", {class: "faint"},
                "Queries downwards, keys to the right. The colour says which rank " +
                    "computes a tile, its strength how many pairs, a frame whose keys" +
                    " travel there."),
            ),
        micro.contexts > 1 && micro.contexts <= MOST_PLACES ?
            element(
                "div",
                {},
                element("h3", {}, "What travels: rows of keys that others see"),
                seenTable(micro, spans),
                element("p", {class: "faint"}, "Of causal attention to all tokens before."),
                ) :
            null,
        ),
    loadBars(micro),
  ];
  return parts.filter((part) => part !== null);
}

// Whether more than one rank shares the work; otherwise there is nothing to lay out.
function hasLayouts(run) {
  return (run.layouts || [])
      .some(
          ({groups}) => groups.length > 1 ||
              groups.some((group) => group.micro_batches.some((micro) => micro.tokens.length > 1)));
}

// Creates the section, which remembers the user's choices.
function layoutBoard() {
  const body = element("div", {});
  const state = {run: 0, step: null, group: 0, micro: 0, document: "all"};
  let shown = [];
  const draw = () => {
    const runs = shown.filter(hasLayouts);
    if (runs.length === 0) return false;
    const run = runs[Math.min(state.run, runs.length - 1)];
    const record = run.layouts.findLast((each) => each.step === state.step) || run.layouts[0];
    const group = record.groups[Math.min(state.group, record.groups.length - 1)];
    const micro = group.micro_batches[Math.min(state.micro, group.micro_batches.length - 1)];
    const take = (name) => (value) => {
      state[name] = value;
      draw();
    };
    const controls = [
      runs.length > 1 &&
          chooser("run", runs.map((each, i) => [i, each.name]), runs.indexOf(run), take("run")),
      chooser(
          "step", run.layouts.map((each) => [each.step, String(each.step)]), record.step,
          take("step")),
      record.groups.length > 1 &&
          chooser(
              "sp group", record.groups.map((each, i) => [i, String(each.dp)]),
              record.groups.indexOf(group), take("group")),
      group.micro_batches.length > 1 &&
          chooser(
              "micro-batch", group.micro_batches.map((_, i) => [i, String(i)]),
              group.micro_batches.indexOf(micro), take("micro")),
    ].filter(Boolean);
    const note = group.left_out > 0 ?
        element("p", {class: "faint"}, group.left_out + " more micro-batches are not kept") :
        null;
    body.replaceChildren(
        element("div", {class: "controls"}, ...controls),
        ...(note ? [note] : []),
        ...(micro ? microDrawing(micro, state, draw) : [element("p", {}, "no micro-batch")]),
    );
    return true;
  };
  return {
    body,
    of: (run) => run.layouts,
    update(runs) {
      shown = runs;
      return draw();
    },
  };
}
