// Numbers as people read them.

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

function bytes(value) {
  if (value === null || value === undefined) return "-";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return Number(size.toPrecision(4)) + " " + unit;
    size /= 1024;
  }
  return Number(size.toPrecision(4)) + " TiB";
}

// At an axis, whose ticks are whole powers of two.
function tickBytes(value) {
  return bytes(Number(value.toPrecision(3)));
}

const BYTE_STEPS = Array.from({length: 50}, (_, i) => 2 ** i);

function seconds(value) {
  if (value === null || value === undefined) return "-";
  if (Math.abs(value) < 1 && value !== 0) return Number((1000 * value).toPrecision(3)) + " ms";
  return Number(value.toPrecision(4)) + " s";
}

function percent(share) {
  return Number((100 * share).toPrecision(3)) + " %";
}

// "peak_memory_bytes" -> "peak memory", "rewards/accuracies" as it is.
function words(name) {
  return name.replace(/_bytes$/, "").replace(/_/g, " ");
}

function integer(value) {
  return value === null || value === undefined ? "-" : Math.round(value).toLocaleString("en-US");
}
