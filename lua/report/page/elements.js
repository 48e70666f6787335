"use strict";

// Creates HTML elements from names and text, so that text from a run is never parsed as HTML.

// element("p", { class: "faint" }, "text", another): strings become text nodes, null is ignored.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on"))
      made.addEventListener(name.slice(2), value);
    else
      made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function styled(made, style) {
  Object.assign(made.style, style);
  return made;
}

// A drop-down list of [value, text] pairs. If `take` replaces the list, the new one has the focus.
function chooser(label, choices, chosen, take) {
  const select = element("select", {
    "aria-label": label,
    onchange: () => {
      take(choices[select.selectedIndex][0]);
      if (select.isConnected) return;
      const now = document.querySelector("select[aria-label=" + JSON.stringify(label) + "]");
      if (now) now.focus();
    },
  });
  choices.forEach(([value, text]) => {
    const option = element("option", {}, text);
    option.selected = value === chosen;
    select.append(option);
  });
  return element("label", {}, label, select);
}

// A name and a value in a box.
function card(name, value) {
  if (value === undefined || value === null || value === "-") return null;
  return element(
      "div", {class: "card"}, element("span", {class: "faint"}, name),
      element("span", {class: "value"}, value));
}

// A table of rows of cells: strings, numbers (aligned right) or elements. Long strings may wrap.
// Without a head (null) the first cell of each row is its name.
function table(head, rows, kindOfTable = "") {
  const kind = (value) => typeof value === "number" || value === "-" ? "number" :
      typeof value === "string" && value.length > 24                 ? "wide" :
                                                                       "";
  const cell = (value, i) => element(
      i === 0 && kindOfTable ? "th" : "td", {class: kind(value)},
      typeof value === "number" ? shortNumber(value) : value);
  const title = (name, i) =>
      element("th", {class: rows.length ? kind(rows[0][i]) : "", scope: "col"}, name);
  const body = rows.map((row) => element("tr", {}, ...row.map(cell)));
  const top = head ? [element("thead", {}, element("tr", {}, ...head.map(title)))] : [];
  return element(
      "div", {class: "scroll", tabindex: "0"},
      element("table", {class: "list " + kindOfTable}, ...top, element("tbody", {}, ...body)));
}
