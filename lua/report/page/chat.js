// The chat tab of `moonring watch`: a conversation with a checkpoint. Absent from report.html.

function makeChat() {
  const query = location.search;
  const numbers = [
    samplerInput("temperature", "temperature (0: the most probable token)", "0.05"),
    samplerInput("top_p", "top_p", "0.05"),
    samplerInput("top_k", "top_k (0: all)", "1"),
    samplerInput("max_new_tokens", "max tokens", "1"),
    samplerInput("seed", "seed", "1"),
  ];
  const runs = element("select", {"aria-label": "run", onchange: () => ask()});
  const checkpoints = element("select", {"aria-label": "checkpoint", onchange: () => describe()});
  const systemText = element("textarea", {rows: "2", "aria-label": "system message"});
  const text = element("textarea", {rows: "3", "aria-label": "message", onkeydown: onKey});
  const sendButton = element("button", {onclick: send}, "Send");
  const stopButton = element("button", {onclick: stop, disabled: ""}, "Stop");
  const log = element("div", {role: "log", class: "talk"});
  const state = element("p", {class: "faint", role: "status"});
  const command = element("p", {class: "faint"});
  let models = [];
  const notes = new Set();  // notes that were shown already
  let messages = [];   // of the conversation, as the server takes them
  let talk = 0;        // number of the conversation
  let running = null;  // the AbortController of the answer that is being read
  let asked = 0;       // time of the last request for checkpoints, in milliseconds
  let began = false;   // whether the fields have their defaults

  function describe() {
    const chosen = models.find((each) => each.name === checkpoints.value);
    command.textContent = chosen ? "On a terminal: " + chosen.command : "";
  }

  // Asks for the checkpoints of the chosen run.
  async function ask() {
    if (!runs.value) return;
    asked = Date.now();
    let told;
    try {
      const answer = await fetch("chat.json" + query + "&run=" + encodeURIComponent(runs.value));
      if (!answer.ok) return note(await answer.text(), true);
      told = await answer.json();
    } catch (error) {
      return note("moonring watch does not answer", true);
    }
    if (told.run !== runs.value) return;
    models = told.checkpoints;
    const names = models.map((each) => each.name);
    if (checkpoints.value && !names.includes(checkpoints.value) && names.length)
      note(checkpoints.value + " was removed; the newest is selected");
    fillChoices(
        checkpoints, names,
        models.map(
            (each) => (each.name === "final" ? "final model" : each.name) +
                (each.kind === "adapter" ? " (adapter)" : "")));
    if (!began) {
      for (const {name, input} of numbers) input.value = told.options[name];
      began = true;
    }
    systemText.placeholder = told.system || "of the template";
    if (told.why) note(told.why);
    describe();
  }

  function note(words, bad) {
    state.textContent = words;
    state.classList.toggle("bad", Boolean(bad));
  }

  function add(role, title) {
    const body = element("pre", {});
    log.append(
        element("div", {class: "turn " + role}, element("p", {class: "faint"}, title), body));
    body.scrollIntoView({block: "nearest"});
    return body;
  }

  function onKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  }

  // The fields of the sampler; an empty one has the server's default.
  function options() {
    const values = {};
    for (const {name, input} of numbers) {
      if (input.value !== "") values[name] = Number(input.value);
    }
    if (systemText.value.trim()) values.system = systemText.value;
    return values;
  }

  // Shows one event of the answer; returns whether it is the last one.
  function take(event, body) {
    if (event.text) {
      body.textContent += event.text;
      body.scrollIntoView({block: "nearest"});
    }
    if (event.status) note(event.status);
    if (event.note && !notes.has(event.note)) {
      notes.add(event.note);
      log.append(element("p", {class: "faint"}, event.note));
    }
    if (event.error) note(event.error, true);
    if (event.done) {
      const rate = event.tokens / Math.max(event.seconds, 1e-9);
      const why = {length: ", ended at max tokens", stopped: ", stopped"}[event.done] || "";
      note(integer(event.tokens) + " tokens, " + rate.toFixed(1) + " tokens/s" + why);
    }
    return Boolean(event.error || event.done);
  }

  async function send() {
    const content = text.value;
    if (running || !content.trim()) return;
    if (!checkpoints.value) return note("there is no checkpoint yet", true);
    const request = {
      run: runs.value,
      checkpoint: checkpoints.value,
      messages: [...messages, {role: "user", content}],
      ...options(),
    };
    const mine = talk;
    running = new AbortController();
    sendButton.disabled = true;
    stopButton.disabled = false;
    add("user", "you").textContent = content;
    text.value = "";
    const body = add("assistant", request.run + ", " + request.checkpoint);
    try {
      const answer = await fetch("chat" + query, {
        method: "POST",
        headers: {"Content-Type": "application/json"},
        body: JSON.stringify(request),
        signal: running.signal,
      });
      if (!answer.ok)
        note(await answer.text(), true);
      else if (!await readEvents(answer, (event) => take(event, body)))
        note("moonring watch ended before the answer did", true);
    } catch (error) {
      if (running.signal.aborted)
        note("stopped");
      else
        note("moonring watch does not answer", true);
    }
    if (mine !== talk) {
      note("");
    } else if (body.textContent) {
      messages = [...request.messages, {role: "assistant", content: body.textContent}];
    } else {
      text.value = text.value || content;  // to be sent again
    }
    running = null;
    sendButton.disabled = false;
    stopButton.disabled = true;
  }

  // Closes the connection, which ends the sampler's work.
  function stop() {
    if (running) running.abort();
  }

  function begin() {
    stop();
    talk += 1;
    messages = [];
    log.replaceChildren();
    note("");
    text.focus();
  }

  const place = element(
      "section", {id: "chat"}, element("h2", {}, "Chat"),
      element(
          "div", {class: "controls"}, element("label", {}, "run", runs),
          element("label", {}, "checkpoint", checkpoints),
          element("button", {onclick: begin}, "New chat")),
      command,
      element(
          "details", {}, element("summary", {}, "Options"),
          element("div", {class: "controls"}, ...numbers.map((each) => each.label)),
          element("label", {class: "field"}, "system message", systemText)),
      log, state, element("div", {class: "field"}, text),
      element("div", {class: "controls"}, sendButton, stopButton));
  const tabs = makeTabs(place, ask);
  return {
    // Takes the list of runs, again and again.
    update(list) {
      const able = list.filter((each) => each.stage !== "rm").map((each) => each.name);
      fillChoices(runs, able);
      tabs.hidden = able.length === 0;
      if (!place.hidden && Date.now() - asked > 10000) ask();
    },
  };
}

const chat = document.body.dataset.live ? makeChat() : null;
