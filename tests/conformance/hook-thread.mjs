// The cells of the hook have a thread of their own: they turn its globals into a browser's.

import { parentPort, workerData } from 'node:worker_threads';

import { becomeBrowser } from './page.mjs';

await becomeBrowser();
const [{ cells }, { runCells }] = await Promise.all([import('./cells.mjs'), import('./runner.mjs')]);

const { versions, names, ...options } = workerData;
const wanted = new Set(names);
const chosen = cells(versions).filter(({ name }) => wanted.has(name));
const counts = await runCells(chosen, { ...options, report: line => parentPort.postMessage({ line }) });
parentPort.postMessage({ counts });
process.exit(0);
