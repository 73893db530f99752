// Runs cells side by side and says which of them fail.

import { setTimeout as sleep } from 'node:timers/promises';

import { Cell } from './cell.mjs';
import { CellFailure } from './failure.mjs';
import { Server } from './server.mjs';
import { loadVersion } from './versions.mjs';

const CELL_MS = 180_000;
const RAMP_MS = 30; // between the first cells: they would all send in the same instant

const oneLine = text => text.replaceAll(/\s*\n\s*/g, ' / ');

async function failureOf(server, { version, predicate, state, run }) {
  const cell = new Cell({ server, release: await loadVersion(version), predicate, state });
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new CellFailure(`not done after ${CELL_MS / 1000} s`)), CELL_MS);
  });
  try {
    await Promise.race([run(cell), late]);
    return undefined;
  } catch (error) {
    const reason = error instanceof CellFailure ? error.message : (error.stack ?? String(error));
    return `${oneLine(reason)} (${cell.chatId})`;
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves to the counts; `report` is given one line for each failure as it happens. */
export async function runCells(chosen, { url, sideBySide, report }) {
  const server = new Server(url);
  const counts = { passed: 0, failed: 0 };
  const fail = (name, reason) => {
    counts.failed += 1;
    report(`FAILED ${name}: ${reason}`);
  };

  const unhandled = [];
  process.on('unhandledRejection', error => unhandled.push(error));

  // Importing takes its time, in which the cells that already run would hear nothing from the server.
  await Promise.all([...new Set(chosen.map(({ version }) => version))].map(loadVersion));

  const queue = chosen.values();
  const worker = async (_, index) => {
    await sleep(index * RAMP_MS);
    for (const cell of queue) {
      await server.calm(); // this is no test of load: on a slow machine fewer cells run at a time
      const reason = await failureOf(server, cell);
      if (reason === undefined) counts.passed += 1;
      else fail(cell.name, reason);
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, worker));

  for (const reason of new Set(unhandled.map(error => oneLine(error?.stack ?? String(error))))) {
    fail('no rejection goes unhandled', reason);
  }
  return counts;
}
