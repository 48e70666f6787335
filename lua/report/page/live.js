// The live page of `moonring watch`, which asks its server for new data.

function say(text, bad) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.classList.toggle("bad", Boolean(bad));
}

const PAUSE = 2;        // least seconds between two requests
const LONG_PAUSE = 15;  // seconds after the server could not read a file
const SHARE = 20;       // the pause is at least this many times the server's time for an answer

const asking = {
  timer: null,
  tag: null,
  query: "",
  busy: false,
  again: false
};

function query() {
  const names = (chosenRuns() || []).map((name) => "show=" + encodeURIComponent(name));
  return location.search +
      (names.length > 0 ? (location.search ? "&" : "?") + names.join("&") : "");
}

// Asks the server for new data, and takes the answer. Returns the seconds until the next request.
async function ask() {
  const asked = query();
  const tag = asked === asking.query ? asking.tag : null;
  asking.tag = null;
  let answer, text;
  try {
    answer = await fetch("runs.json" + asked, {
      cache: "no-store",
      headers: tag ? {"If-None-Match": tag} : {},
    });
    text = await answer.text();
  } catch (error) {
    say("moonring watch does not answer; it is asked again", true);
    return PAUSE;
  }
  if (answer.status === 304) {
    [asking.tag, asking.query] = [tag, asked];
    say("live; nothing new at " + new Date().toLocaleTimeString());
    return PAUSE;
  }
  if (answer.status !== 200) {
    say("moonring watch says: " + text, true);
    return PAUSE;
  }
  const told = JSON.parse(text);
  if (told.data) show(told.data);
  if (told.error) {
    say("a file cannot be read: " + told.error, true);
    return LONG_PAUSE;
  }
  [asking.tag, asking.query] = [answer.headers.get("ETag"), asked];
  say("live, as of " + new Date().toLocaleTimeString());
  return Math.max(PAUSE, SHARE * told.seconds);
}

// Asks again and again as long as the page is open.
async function follow() {
  asking.busy = true;
  const pause = await ask();
  asking.busy = false;
  asking.timer = setTimeout(follow, asking.again ? 0 : 1000 * pause);
  asking.again = false;
}

// Asks at once, or right after the answer that is awaited.
function askNow() {
  asking.again = asking.busy;
  if (asking.busy) return;
  clearTimeout(asking.timer);
  follow();
}
