// Texts that the model has generated.

function pieces(pairs) {
  return element(
      "dl",
      {class: "sample"},
      ...pairs.filter(([, text]) => text !== undefined && text !== null)
          .flatMap(
              ([name, text]) =>
                  [element("dt", {}, name),
                   element(
                       "dd", {},
                       element("pre", {}, typeof text === "string" ? text : shortNumber(text))),
  ]),
  );
}

function rewardsOf(row) {
  const list = [];
  if (row.reward !== undefined && row.reward !== null)
    list.push("reward " + shortNumber(row.reward));
  for (const [name, value] of Object.entries(row.rewards || {})) {
    list.push(name + " " + shortNumber(value));
  }
  if (row.advantage !== undefined) list.push("advantage " + shortNumber(row.advantage));
  if (row.tokens !== undefined) list.push(integer(row.tokens) + " tokens");
  return list.join(", ");
}

const KINDS = {
  answers: {
    title: "Answers to sample_prompt",
    piece: (row) => [["prompt", row.prompt], [row.when + " training", row.answer]],
  },
  completions: {
    title: "Completions",
    piece: (row) => [
        ["prompt", row.prompt],
        ["completion, step " + row.step, row.completion],
        ["judged", rewardsOf(row)],
],
  },
  predictions: {
    title: "Generated predictions",
    piece: (row) => [["prompt", row.prompt], ["predicted", row.predict], ["label", row.label]],
  },
};

const OPEN = 2;  // number of files whose samples are shown unfolded at first

function sampleParts(runs) {
  const parts = [];
  for (const run of runs) {
    for (const file of run.samples || []) {
      const kind = KINDS[file.kind];
      const opened = parts.length < OPEN ? {open: ""} : {};
      parts.push(
          element(
              "details",
              opened,
              element(
                  "summary", {},
                  (runs.length > 1 ? run.name + ": " : "") + kind.title + " (" + file.file + ")"),
              ...file.rows.map((row) => pieces(kind.piece(row))),
              ),
      );
    }
  }
  return parts;
}
