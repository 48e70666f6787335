// Formats numbers for people.

function shortNumber(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) return value.toExponential(3);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Number(value.toPrecision(5)).toLocaleString("en-US", {maximumFractionDigits: 6});
}

function tickNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace(".0e", "e");
  return String(Number(value.toPrecision(6)));
}

function bytes(value, digits = 4) {
  if (value === null || value === undefined) return "-";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return Number(size.toPrecision(digits)) + " " + unit;
    size /= 1024;
  }
  return Number(size.toPrecision(digits)) + " TiB";
}

function tickBytes(value) {
  return bytes(value, 3);
}

// Possible distances between two ticks of an axis.
const BYTE_STEPS = Array.from({length: 50}, (_, i) => 2 ** i);
const WHOLE_STEPS = Array.from({length: 40}, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));

function seconds(value) {
  if (value === null || value === undefined) return "-";
  if (Math.abs(value) < 1 && value !== 0) return Number((1000 * value).toPrecision(3)) + " ms";
  return Number(value.toPrecision(4)) + " s";
}

function percent(share) {
  return Number((100 * share).toPrecision(3)) + " %";
}

// Formats a metric's name: "peak_memory_bytes" becomes "peak memory"; "rewards/accuracies" stays.
function words(name) {
  return name.replace(/_bytes$/, "").replace(/_/g, " ");
}

function integer(value) {
  return value === null || value === undefined ? "-" : Math.round(value).toLocaleString("en-US");
}
