// Colours by name: a run has the same colour in all charts and on all pages, whatever other runs
// are shown or hidden; so has a metric in the charts of a single run.

const COLORS = 12;

// The current value of a CSS variable of the page, which differs between the light and the dark
// style.
function styleValue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function color(i) {
  return styleValue("--c" + (i % COLORS));
}

// Without the grey, and without those that are like another: red, lime and teal.
const BY_NAME = [0, 1, 2, 3, 4, 5, 6, 11];
const HUES = [0, 1, 2, 3, 4, 0, 5, 1];  // blue and sky are one, as are vermilion and brown
const STRIDE = 3;                       // has no common factor with their number

// FNV-1a, 32 bits.
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

// Assigns each name the colour of its hash. Of names with the same colour, the first in the
// alphabet keeps it, and the others take the next free one; if `apart`, the next one of another
// hue.
function colorsOf(names, apart = false) {
  const taken = new Set();
  const hues = new Set();
  const colors = new Map();
  const isFree = (slot) =>
      !taken.has(slot) && !(apart && hues.has(HUES[slot]) && hues.size < Math.max(...HUES) + 1);
  for (const name of [...new Set(names)].sort()) {
    if (taken.size === BY_NAME.length) taken.clear();
    let slot = hashOf(name) % BY_NAME.length;
    while (!isFree(slot)) slot = (slot + STRIDE) % BY_NAME.length;
    taken.add(slot);
    hues.add(HUES[slot]);
    colors.set(name, BY_NAME[slot]);
  }
  return colors;
}
