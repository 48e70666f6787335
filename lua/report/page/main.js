// The page. Its sections are drawn from the data in the page, or from those of a running
// `moonring watch`.

// A section that is rebuilt whenever its data changes.
function plain(of, make) {
  const body = element("div", {});
  return {
    body,
    of,
    update(runs) {
      const parts = make(runs);
      body.replaceChildren(...parts);
      return parts.length > 0;
    },
  };
}

// A part of each run that has it; `has` decides whether it says anything.
function perRun(part, make, has = Boolean) {
  return plain(
      (run) => run[part],
      (runs) => runs.filter((run) => has(run[part]))
                    .flatMap(
                        (run) =>
                            [...(isCompared() ? [element("h3", {}, runName(run))] : []),
                             ...make(run[part])]));
}

const sections = [
  ["Overview", plain((run) => ({...run, samples: null, layouts: null}), overview)],
  ["Curves", curveBoard()],
  ["Evaluations", evaluationBoard()],
  ["Results", plain((run) => run.results, results)],
  ["Samples", plain((run) => run.samples, sampleParts)],
  [
    "Time by part",
    stackBoard("time/", "Time of a step", {unit: "s", show: seconds, tick: tickNumber})
  ],
  ["Memory by part", stackBoard("memory/", "Memory at the peak so far", BYTES)],
  ["Memory at the peak", perRun("memory", memoryBars)],
  ["Slowest ranks", perRun("ranks", rankBars, (ranks) => ranks && ranks.busy.length > 1)],
  ["Layouts", layoutBoard()],
  ["Data", plain((run) => run.data, dataParts)],
  ["Configuration", settingsBoard()],
].map(([title, board]) => {
  const id = title.toLowerCase().replace(/ /g, "-");
  const place = element("section", {id}, element("h2", {}, title), board.body);
  const link = element("a", {href: "#" + id}, title);
  place.hidden = true;
  link.hidden = true;
  document.getElementById("sections").append(place);
  document.getElementById("contents").append(link);
  return {board, place, link, shown: undefined};
});

let newest = null;  // the data that are shown

function titleOf(data, runs) {
  if (page.entries.length === 0) return data.waiting || "no run";
  if (!isCompared()) return page.entries[0].name;
  return runs.length + " of " + page.entries.length + " runs";
}

function show(data) {
  newest = data;
  page.made = data.made;
  takeRuns(data);
  const runs = data.runs.filter((run) => chosen.has(run.name));
  document.getElementById("title").textContent = titleOf(data, runs);
  const status = document.getElementById("status");
  status.replaceChildren(...(isCompared() ? [] : runs.map((run) => statusLine(run))));
  document.getElementById("made").textContent =
      "Made by Moonring " + data.version + ", " + utc(data.made);
  if (chat) chat.update(data.list);
  for (const section of sections) drawSection(section, runs);
}

// Draws a section if its data have changed, or the choice of runs.
function drawSection(section, runs) {
  const {board} = section;
  const told = board.of ?
      JSON.stringify([isCompared(), runs.map((run) => [run.name, board.of(run)])]) :
      null;
  if (told !== null && told === section.shown) return;
  section.shown = told;
  section.place.hidden = false;  // charts take the width of their visible container
  const filled = runs.length > 0 && board.update(runs);
  section.place.hidden = !filled;
  section.link.hidden = !filled;
}

// Shows the runs that are chosen now. A server sends the data of those that the page lacks.
function showAgain() {
  if (newest === null) return;
  show(newest);
  if (page.live && chosenRuns()) askNow();
}

page.live = Boolean(document.body.dataset.live);
if (page.live) {
  say("reading the run's files");
  follow();
} else {
  show(JSON.parse(document.getElementById("runs").textContent));
}
