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

// What a completion was given: its reward, and beside it the parts and the advantage.
function judgement(row) {
  const more =
      Object.entries(row.rewards || {}).map(([name, value]) => name + " " + shortNumber(value));
  if (row.advantage !== undefined) more.push("advantage " + shortNumber(row.advantage));
  if (row.tokens !== undefined) more.push(integer(row.tokens) + " tokens");
  const reward = row.reward ?? undefined;
  return element(
      "p", {class: "judged"},
      element("strong", {}, reward === undefined ? "no reward" : "reward " + shortNumber(reward)),
      element("span", {class: "faint"}, "  " + more.join(", ")));
}

// The completions of a prompt, the best reward first.
function completionGroup(group) {
  const mean = group.mean ?? undefined;
  const said = integer(group.count) + " completions" +
      (mean === undefined ? "" : ", mean reward " + shortNumber(mean));
  const parts = [];
  let rank = 0;
  for (const row of group.rows) {
    if (row.rank > rank + 1)
      parts.push(element("p", {class: "faint"}, integer(row.rank - rank - 1) + " more between"));
    rank = row.rank;
    parts.push(
        element("div", {class: "completion"}, judgement(row), element("pre", {}, row.completion)));
  }
  return element(
      "div", {class: "sample"}, element("p", {class: "faint"}, "prompt; " + said),
      element("pre", {class: "prompt"}, group.prompt), ...parts);
}

function completionsTitle(file) {
  const first = file.groups.length > 0 ? file.groups[0].rows[0] : {};
  return "Completions" + (first.step === undefined ? "" : " at step " + integer(first.step));
}

function completionParts(file) {
  const parts = file.groups.map(completionGroup);
  if (file.prompts > file.groups.length) {
    const said = "the first " + file.groups.length + " of " + integer(file.prompts) + " prompts";
    parts.push(element("p", {class: "faint"}, said + "; all are in " + file.file));
  }
  return parts;
}

const KINDS = {
  answers: {
    title: () => "Answers to sample_prompt",
    parts: (file) => file.rows.map(
        (row) => pieces([["prompt", row.prompt], [row.when + " training", row.answer]])),
  },
  completions: {title: completionsTitle, parts: completionParts},
  predictions: {
    title: () => "Generated predictions",
    parts: (file) => file.rows.map(
        (row) =>
            pieces([["prompt", row.prompt], ["predicted", row.predict], ["label", row.label]])),
  },
};

const OPEN = 2;  // number of files whose samples are shown unfolded at first

// Which parts are unfolded stays over updates.
const unfolded = new Map();

function sampleParts(runs) {
  const files = runs.flatMap((run) => (run.samples || []).map((file) => ({run, file})));
  return files.map(({run, file}, i) => {
    const kind = KINDS[file.kind];
    const key = run.name + "\n" + kind.title(file);
    const part = element(
        "details", {ontoggle: () => unfolded.set(key, part.open)},
        element(
            "summary", {}, ...(isCompared() ? [runName(run), ": "] : []), kind.title(file),
            element("span", {class: "faint"}, "  " + file.file)),
        ...kind.parts(file));
    part.open = unfolded.get(key) ?? i < OPEN;
    return part;
  });
}
