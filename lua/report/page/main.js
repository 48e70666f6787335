// The page. Its sections are drawn from the data in the page, or updated from the server of a
// running `moonring watch`.

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

function perRun(part, make) {
  return plain(
      (run) => run[part],
      (runs) => runs.filter((run) => run[part])
                    .flatMap(
                        (run) =>
                            [...(runs.length > 1 ? [element("h3", {}, run.name)] : []),
                             ...make(run[part])]),
  );
}

const sections = [
  ["Overview", plain((run) => run, overview)],
  ["Curves", curveBoard()],
  ["Evaluations", plain((run) => [run.curves, run.results], evaluations)],
  ["Time by part", stackBoard("time/", "Seconds of a step", {show: seconds, tick: tickNumber})],
  [
    "Memory by part",
    stackBoard(
        "memory/", "Memory at the peak so far", {show: bytes, tick: tickBytes, steps: BYTE_STEPS})
  ],
  ["Memory at the peak", perRun("memory", memoryBars)],
  ["Slowest ranks", perRun("ranks", rankBars)],
  ["Layouts", layoutBoard()],
  ["Samples", plain((run) => run.samples, sampleParts)],
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

function show(data) {
  const runs = data.runs;
  document.getElementById("title").textContent = runs.map((run) => run.name).join(", ");
  document.getElementById("made").textContent =
      "Made by Moonring " + data.version + ", " + data.made;
  for (const section of sections) {
    const told = section.board.of ? JSON.stringify(runs.map(section.board.of)) : null;
    if (told !== null && told === section.shown) continue;
    section.shown = told;
    section.place.hidden = false;  // charts take the width of their visible container
    const filled = section.board.update(runs);
    section.place.hidden = !filled;
    section.link.hidden = !filled;
  }
}

function say(text, bad) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.classList.toggle("bad", Boolean(bad));
}

const PAUSE = 2;        // least seconds between two requests
const LONG_PAUSE = 15;  // seconds after the server could not read a file
const SHARE = 20;       // the pause is at least this many times the server's time for an answer

// Asks the server for new data, again and again as long as the page is open.
async function follow() {
  let tag = null;
  let pause = PAUSE;
  try {
    const answer = await fetch("runs.json" + location.search, {
      cache: "no-store",
      headers: follow.tag ? {"If-None-Match": follow.tag} : {},
    });
    if (answer.status === 200) {
      const told = await answer.json();
      if (told.error) {
        say("a file cannot be read: " + told.error, true);
        pause = LONG_PAUSE;
      } else {
        tag = answer.headers.get("ETag");
        pause = Math.max(PAUSE, SHARE * told.seconds);
        show(told.data);
        say("live, as of " + new Date().toLocaleTimeString());
      }
    } else if (answer.status === 304) {
      tag = follow.tag;
      say("live; nothing new at " + new Date().toLocaleTimeString());
    } else {
      say("moonring watch says: " + (await answer.text()), true);
    }
  } catch (error) {
    say("moonring watch does not answer; it is asked again", true);
  }
  follow.tag = tag;
  setTimeout(follow, 1000 * pause);
}

if (document.body.dataset.live) {
  say("reading the run's files");
  follow();
} else {
  show(JSON.parse(document.getElementById("runs").textContent));
}
