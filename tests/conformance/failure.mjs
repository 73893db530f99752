// What a cell fails with, and the comparisons that say in one line where two values part.

export class CellFailure extends Error {}

export function fail(reason) {
  throw new CellFailure(reason);
}

export function check(condition, reason) {
  if (!condition) fail(typeof reason === 'function' ? reason() : reason);
}

const show = value => {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 700 ? `${text.slice(0, 700)}…` : text;
};

/** The path of the first difference between two JSON values, or undefined. */
export function firstDifference(actual, expected, path = '') {
  if (Object.is(actual, expected)) return undefined;
  const bothObjects = actual && expected && typeof actual === 'object' && typeof expected === 'object';
  if (!bothObjects || Array.isArray(actual) !== Array.isArray(expected)) return path || '(root)';
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    if (!(key in actual) || !(key in expected)) return `${path}.${key}`;
    const found = firstDifference(actual[key], expected[key], `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

export function equal(actual, expected, label) {
  const at = firstDifference(actual, expected);
  if (at) fail(`${label}: differs at ${at}: got ${show(actual)}, expected ${show(expected)}`);
}
