// Parts of the chat tab that know nothing of a conversation.

// A number of the sampler, with its name in the request.
function samplerInput(name, title, step) {
  const input = element("input", {type: "number", step, id: "chat-" + name});
  return {name, input, label: element("label", {}, title, input)};
}

// Fills a drop-down list, and keeps its choice if it is still there.
function fillChoices(select, names, texts) {
  const before = select.value;
  if (names.join("\n") === [...select.options].map((each) => each.value).join("\n")) return;
  select.replaceChildren(
      ...names.map((value, i) => element("option", {value}, texts ? texts[i] : value)));
  if (names.includes(before)) select.value = before;
}

// Reads an answer of lines of JSON as they come. Returns whether `take` has returned true.
async function readEvents(answer, take) {
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let ended = false;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return ended;
    const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
    rest = lines.pop();
    for (const line of lines) ended = take(JSON.parse(line)) || ended;
  }
}

// The buttons that show the report or `place`, which is put behind the report; `shown` is called
// when `place` is shown.
function makeTabs(place, shown) {
  const report = ["contents", "sections"].map((id) => document.getElementById(id));
  const select = (other) => {
    for (const each of report) each.hidden = other;
    place.hidden = !other;
    buttons.forEach((each, i) => each.setAttribute("aria-pressed", String((i === 1) === other)));
    if (other) shown();
  };
  const buttons = ["Report", "Chat"].map(
      (name, i) => element("button", {onclick: () => select(i === 1)}, name));
  const tabs = element("div", {class: "controls tabs"}, ...buttons);
  document.getElementById("state").after(tabs);
  document.getElementById("sections").after(element("main", {}, place));
  select(false);
  return tabs;
}
