#!/usr/bin/env node
// Runs the matrix against a server: node run.mjs --url http://127.0.0.1:8000 [--only TEXT] [--versions 6.0.0,7.0.173]
//
// The server's agents are those of agents.py: AGENT_SERVER_AGENTS=tests.conformance.agents:AGENTS.
// One line for each cell that fails, then the count. A cell waits most of its time for nothing to happen, so hundreds of
// them run side by side. `--only` may be repeated: every text must be in the cell's name, as --list prints it.

import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';

import { cells } from './cells.mjs';
import { runCells } from './runner.mjs';
import { PAGE_STATES, VERSIONS } from './versions.mjs';

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:8000' },
    only: { type: 'string', multiple: true, default: [] },
    versions: { type: 'string', default: VERSIONS.join(',') },
    'side-by-side': { type: 'string', default: '200' },
    list: { type: 'boolean', default: false },
  },
});

const versions = options.versions.split(',');
const chosen = cells(versions).filter(({ name }) => options.only.every(text => name.includes(text)));
const hooks = chosen.filter(({ state }) => PAGE_STATES.includes(state));
const others = chosen.filter(({ state }) => !PAGE_STATES.includes(state));

function inHookThread(workerData, report) {
  if (workerData.names.length === 0) return { passed: 0, failed: 0 };
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('hook-thread.mjs', import.meta.url), { workerData });
    thread.on('message', ({ line, counts }) => (counts ? resolve(counts) : report(line)));
    thread.on('error', reject);
    thread.on('exit', code => reject(new Error(`the hook's thread ended with ${code}`)));
  });
}

if (options.list) {
  for (const { name } of chosen) console.log(name);
} else {
  await fetch(options.url); // nothing can be said about a server that is not there
  const began = Date.now();
  const report = line => console.log(line);
  const sideBySide = Number(options['side-by-side']);
  const names = hooks.map(({ name }) => name);
  const counts = await Promise.all([
    runCells(others, { url: options.url, sideBySide, report }),
    inHookThread({ versions, names, url: options.url, sideBySide: Math.ceil(sideBySide / 5) }, report),
  ]);
  const sum = key => counts.reduce((total, count) => total + count[key], 0);
  console.log(`${chosen.length} cells in ${Math.round((Date.now() - began) / 1000)} s`);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  process.exit(sum('failed') > 0 || sum('passed') === 0 ? 1 : 0);
}
