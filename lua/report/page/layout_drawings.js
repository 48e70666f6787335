// Drawings of a micro-batch's layout: which rank has which tokens, which tiles of attention it
// computes, and what is communicated for them. A place is an index on the context axis; if heads
// are split, the ranks of one place share its tiles by heads.

// A canvas that is redrawn when its width changes, and that describes what is under the pointer.
function drawing(height, draw, tell, said) {
  const canvas = element("canvas", {class: "drawing"});
  let last = 0;
  const paint = () => {
    const width = canvas.clientWidth;
    if (width === 0) return;
    last = width;
    const scale = window.devicePixelRatio || 1;
    const tall = height(width);
    canvas.style.height = tall + "px";
    canvas.width = width * scale;
    canvas.height = tall * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    draw(pen, width, tall);
  };
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    said.textContent = tell(event.clientX - box.left, event.clientY - box.top, box) || "";
  });
  new ResizeObserver(() => {
    if (canvas.clientWidth !== last) paint();
  }).observe(canvas);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () =>
      (canvas.isConnected ? paint() : scheme.removeEventListener("change", repaint));
  scheme.addEventListener("change", repaint);
  return canvas;
}

function starts(lengths) {
  let sum = 0;
  return lengths.map((length) => (sum += length) - length);
}

// The spans of tokens of each place: { place, document, begin, end }, documents from 0.
function spansOf(micro) {
  const list = [];
  micro.spans.forEach((numbers, place) => {
    for (let i = 0; i < numbers.length; i += 3) {
      list.push({place, document: numbers[i] - 1, begin: numbers[i + 1], end: numbers[i + 2]});
    }
  });
  return list;
}

function ranksOf(micro, place) {
  const ranks = [];
  for (let head = 0; head < micro.heads; ++head) {
    ranks.push(
        micro.placement === "head_first" ? place * micro.heads + head :
                                           head * micro.contexts + place,
    );
  }
  return (ranks.length > 1 ? "ranks " : "rank ") + ranks.join(", ");
}

// The number of query-key pairs of a causal tile: queries [a, b) and keys [c, d) of one document.
function pairs(query, keys) {
  const n = query.end - query.begin;
  if (keys.begin === query.begin) return (n * (n + 1)) / 2;
  return keys.begin < query.begin ? n * (keys.end - keys.begin) : 0;
}

const ROW = 20;

function ownersDrawing(micro, spans, said) {
  const offsets = starts(micro.lengths);
  const total = micro.lengths.reduce((sum, each) => sum + each, 0) || 1;
  const draw = (pen, width, tall) => {
    pen.fillStyle = styleValue("--line");
    offsets.forEach((offset, d) => {
      if (d % 2 === 1) {
        pen.globalAlpha = 0.45;
        pen.fillRect((width * offset) / total, 0, (width * micro.lengths[d]) / total, tall);
      }
    });
    pen.globalAlpha = 1;
    for (const span of spans) {
      pen.fillStyle = color(span.place);
      const left = (width * (offsets[span.document] + span.begin)) / total;
      const wide = Math.max((width * (span.end - span.begin)) / total, 0.5);
      pen.fillRect(left, span.place * ROW + 3, wide, ROW - 6);
    }
  };
  const tell = (x, y, box) => {
    const token = (x / box.width) * total;
    const d = offsets.findLastIndex((offset) => offset <= token);
    const at = token - offsets[d];
    const span = spans.find((each) => each.document === d && each.begin <= at && at < each.end);
    if (!span) return "";
    return (
        "document " + d + " of " + integer(micro.lengths[d]) + " tokens: " + integer(span.begin) +
        " to " + integer(span.end - 1) + " on " + ranksOf(micro, span.place));
  };
  return drawing(() => micro.contexts * ROW, draw, tell, said);
}

// Draws the tiles of one document, or those of all documents along the diagonal. Keys go to the
// right, queries down.
function tilesDrawing(micro, spans, chosen, said) {
  const offsets = starts(micro.lengths);
  const all = chosen === "all";
  const total = all ? micro.lengths.reduce((sum, each) => sum + each, 0) : micro.lengths[chosen];
  const base = (document) => (all ? offsets[document] : 0);
  const byDocument = new Map();
  for (const span of spans) {
    if (!all && span.document !== chosen) continue;
    if (!byDocument.has(span.document)) byDocument.set(span.document, []);
    byDocument.get(span.document).push(span);
  }
  let most = 1;
  const each = (take) => {
    for (const list of byDocument.values()) {
      for (const query of list) {
        for (const keys of list) {
          const count = pairs(query, keys);
          if (count > 0) take(query, keys, count);
        }
      }
    }
  };
  each((query, keys, count) => (most = Math.max(most, count)));
  const draw = (pen, width, tall) => {
    const unit = width / (total || 1);
    each((query, keys, count) => {
      const at = base(query.document);
      const left = unit * (at + keys.begin);
      const top = unit * (at + query.begin);
      const wide = unit * (keys.end - keys.begin);
      const high = unit * (query.end - query.begin);
      pen.globalAlpha = 0.2 + 0.8 * Math.sqrt(count / most);
      pen.fillStyle = color(query.place);
      pen.beginPath();
      if (keys.begin === query.begin) {
        pen.moveTo(left, top);
        pen.lineTo(left + wide, top + high);
        pen.lineTo(left, top + high);
        pen.closePath();
      } else {
        pen.rect(left, top, wide, high);
      }
      pen.fill();
      pen.globalAlpha = 1;
      if (keys.place !== query.place && wide > 5 && high > 5) {
        pen.strokeStyle = color(keys.place);
        pen.lineWidth = 2;
        pen.strokeRect(left + 2, top + 2, wide - 4, high - 4);
      }
    });
    pen.strokeStyle = styleValue("--line");
    pen.strokeRect(0.5, 0.5, width - 1, tall - 1);
  };
  const tell = (x, y, box) => {
    const key = (x / box.width) * total;
    const row = (y / box.height) * total;
    let found = "";
    each((query, keys, count) => {
      const at = base(query.document);
      if (key < at + keys.begin || key >= at + keys.end) return;
      if (row < at + query.begin || row >= at + query.end) return;
      const travels = keys.place === query.place ?
          "" :
          ", whose keys travel from " + ranksOf(micro, keys.place);
      found = "document " + query.document + ": queries " + integer(query.begin) + " to " +
          integer(query.end - 1) + " (" + ranksOf(micro, query.place) + ") by keys " +
          integer(keys.begin) + " to " + integer(keys.end - 1) + travels + ": " + integer(count) +
          " pairs";
    });
    return found;
  };
  return styled(drawing((width) => width, draw, tell, said), {maxWidth: "30rem"});
}
