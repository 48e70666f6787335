// The legend of a chart: a table with a row for each run (or metric), and a column for each kind:
// training and evaluation, told apart by the style of the line. It shows the values at the cursor,
// or the last ones.

function lineSample(dash) {
  const style = !dash ? "solid" : dash[0] > 3 ? "dashed" : "dotted";
  return styled(element("span", {class: "line-sample"}), {borderTopStyle: style});
}

class Legend {
  // toggle(row) is called when a row's name is clicked; without it the names are not clickable.
  constructor(toggle) {
    this.toggle = toggle;
    this.place = element("div", {class: "legend"});
  }

  update(lines, off, reversed) {
    const drawn = lines.filter((line) => !line.faint);
    const columns = [...new Set(drawn.map((line) => line.column))];
    const styles = new Map(drawn.map((line) => [line.column, line.dash]));
    const rows = new Map();
    for (const line of drawn) {
      if (!rows.has(line.row)) rows.set(line.row, {color: line.color, cells: new Map()});
    }
    this.at = element("th", {scope: "col"}, "last");
    const named = columns.length > 1 || columns[0] !== "train";
    const heads = columns.map(
        (column) => element(
            "th", {scope: "col", class: "number"},
            ...(named && column ? [lineSample(styles.get(column)), column] : [])));
    this.cells = lines.map(() => null);
    const inOrder = reversed ? [...rows].reverse() : [...rows];
    const body = inOrder.map(([name, row]) => {
      const sign = [
        styled(element("span", {class: "swatch"}), {background: `var(--c${row.color % COLORS})`}),
        name
      ];
      const head = this.toggle ? element(
                                     "button", {
                                       class: "plain",
                                       "aria-pressed": String(!off.has(name)),
                                       onclick: () => this.toggle(name),
                                     },
                                     ...sign) :
                                 element("span", {}, ...sign);
      const cells = columns.map((column) => {
        const cell = element("td", {class: "number"});
        lines.forEach((line, i) => {
          if (line.row === name && line.column === column && !line.faint) this.cells[i] = cell;
        });
        return cell;
      });
      return element("tr", {}, element("th", {scope: "row"}, head), ...cells);
    });
    this.place.replaceChildren(element("table", {}, element("tr", {}, this.at, ...heads), ...body));
  }

  // Shows the place on the x axis, and for each line its value as text.
  show(at, texts) {
    this.at.textContent = at;
    texts.forEach((text, i) => {
      if (this.cells[i]) this.cells[i].textContent = text;
    });
  }
}
