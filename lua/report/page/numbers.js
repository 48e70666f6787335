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
  return Number(value.toPrecision(6)).toLocaleString("en-US", {maximumFractionDigits: 9});
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

function round(value, digits) {
  return Number(value.toFixed(digits));
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

// "1:02:03", with days before it from one day on.
function clockTime(value) {
  if (value === null || value === undefined) return undefined;
  const whole = Math.round(value);
  const two = (number) => String(Math.floor(number) % 60).padStart(2, "0");
  const days = Math.floor(whole / 86400);
  const hours = Math.floor(whole / 3600) % 24;
  return (days > 0 ? days + " d " : "") + hours + ":" + two(whole / 60) + ":" + two(whole);
}

// "2026-11-28 21:00:00 UTC" for "2026-11-28T21:00:00Z".
function utc(text) {
  return typeof text === "string" ? text.replace("T", " ").replace(/Z$/, " UTC") : undefined;
}

// A metric's value; null, which stands for NaN and infinity in the log, is said.
function figureText(value, show = shortNumber) {
  if (value === undefined) return undefined;
  return value === null ? "NaN or infinite" : show(value);
}
