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

// A drop-down list of [value, text] pairs.
function chooser(label, choices, chosen, take) {
  const select = element("select", {
    "aria-label": label,
    onchange: () => take(choices[select.selectedIndex][0]),
  });
  choices.forEach(([value, text]) => {
    const option = element("option", {}, text);
    option.selected = value === chosen;
    select.append(option);
  });
  return element("label", {}, label, select);
}

// A table of rows of cells: strings, numbers (aligned right) or elements. Long strings may wrap.
function table(head, rows) {
  const kind = (value) => typeof value === "number" || value === "-" ? "number" :
      typeof value === "string" && value.length > 24                 ? "wide" :
                                                                       "";
  const cell = (value) =>
      element("td", {class: kind(value)}, typeof value === "number" ? shortNumber(value) : value);
  const title = (name, i) => element("th", {class: rows.length ? kind(rows[0][i]) : ""}, name);
  const body = rows.map((row) => element("tr", {}, ...row.map(cell)));
  return element(
      "div", {class: "scroll"},
      element(
          "table", {class: "list"}, element("thead", {}, element("tr", {}, ...head.map(title))),
          element("tbody", {}, ...body)));
}

const COLORS = 8;

// The current value of a CSS variable of the page, which differs between the light and the dark
// style.
function styleValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function color(i) {
  return styleValue("--c" + (i % COLORS));
}
