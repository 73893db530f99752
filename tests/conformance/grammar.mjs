// What every event stream of the server must look like, whichever client reads it.

import { loadVersion, hasApprovals, VERSIONS } from './versions.mjs';

const ONLY_WITH_APPROVALS = new Set(['tool-approval-request', 'tool-output-denied']);
const OUTSIDE_STEPS = new Set(['start', 'start-step', 'finish', 'error', 'abort', 'message-metadata']);
const NULLABLE = new Set(['input', 'output', 'data']);
const BARE = new Set(['start-step', 'finish-step', 'finish', 'abort']);

/** Everything wrong with one stream that was read to its end, as short sentences. */
export function streamFaults(exchange) {
  const faults = [...exchange.faults];
  const types = exchange.chunks.map(chunk => chunk.type);
  const end = types.at(-1);

  if (!exchange.done) faults.push('no [DONE] at the end');
  if (!['finish', 'error', 'abort'].includes(end)) faults.push(`ends on ${end ?? 'nothing'}`);
  faults.push(...prefixFaults(exchange, types), ...headerFaults(exchange), ...stepFaults(exchange.chunks));
  return faults;
}

// A stream that goes on with a message the client already holds writes it once more right after the first step begins:
// a chunk that writes, so that a client whose state copies messages sees the new step.
function prefixFaults({ chunks, continues, method }, types) {
  const expected = method === 'POST' && continues ? ['start', 'start-step', 'start'] : ['start', 'start-step'];
  if (expected.some((type, index) => types[index] !== type)) return [`begins ${types.slice(0, 4).join(', ')}`];
  const ids = new Set(chunks.filter(chunk => chunk.type === 'start').map(chunk => chunk.messageId));
  if (ids.has(undefined) || ids.size !== 1) return [`names the messages ${[...ids].join(', ')}`];
  if (continues && !ids.has(continues)) return [`continues ${[...ids][0]} where the client holds ${continues}`];
  return [];
}

const HEADERS = {
  'content-type': /^text\/event-stream/,
  'cache-control': /^no-cache, no-transform$/,
  'x-accel-buffering': /^no$/,
  'x-vercel-ai-ui-message-stream': /^v1$/,
  'x-session-id': /./,
};

function headerFaults({ responseHeaders }) {
  return Object.entries(HEADERS)
    .filter(([name, pattern]) => !pattern.test(responseHeaders.get(name) ?? ''))
    .map(([name]) => `header ${name} is ${responseHeaders.get(name)}`);
}

function stepFaults(chunks) {
  const faults = [];
  const open = new Set();
  const used = new Set();
  const waiting = new Set();
  let inStep = false;

  for (const chunk of chunks) {
    const { type } = chunk;
    if (!inStep && !OUTSIDE_STEPS.has(type)) faults.push(`${type} outside a step`);
    if (BARE.has(type) && Object.keys(chunk).length > 1) faults.push(`${type} is not bare: ${JSON.stringify(chunk)}`);
    for (const [key, value] of Object.entries(chunk)) {
      if (value === null && !NULLABLE.has(key)) faults.push(`${type} has a null ${key}`);
    }
    if (type === 'start-step') {
      if (inStep) faults.push('a step begins inside a step');
      inStep = true;
    } else if (type === 'finish-step') {
      if (open.size > 0) faults.push(`${[...open].join(', ')} still open at the end of a step`);
      inStep = false;
    } else if (type === 'text-start' || type === 'reasoning-start') {
      if (used.has(chunk.id)) faults.push(`the id ${chunk.id} is used twice`);
      used.add(chunk.id);
      open.add(chunk.id);
    } else if (type === 'text-delta' || type === 'reasoning-delta') {
      if (!open.has(chunk.id)) faults.push(`${type} without its start`);
    } else if (type === 'text-end' || type === 'reasoning-end') {
      if (!open.delete(chunk.id)) faults.push(`${type} without its start`);
    } else if (type === 'tool-approval-request') {
      waiting.add(chunk.toolCallId);
    } else if (type === 'tool-input-available' && chunk.providerExecuted && waiting.has(chunk.toolCallId)) {
      faults.push(`${chunk.toolCallId} waits for an approval and is flagged`);
    } else if (type === 'error' || type === 'abort') {
      if (open.size > 0) faults.push(`${[...open].join(', ')} still open at ${type}`);
      open.clear();
    }
    if (chunk.dynamic !== undefined) faults.push(`${type} carries dynamic`);
  }
  return faults;
}

// Each pinned release judges each distinct shape of chunk and of message once: the values do not matter to a schema, the
// keys and their types do.
const verdicts = new Map();

function once(key, judge) {
  if (!verdicts.has(key)) verdicts.set(key, judge());
  return verdicts.get(key);
}

const chunkShape = chunk =>
  Object.keys(chunk)
    .sort()
    .map(key => (key === 'type' ? chunk.type : `${key}:${chunk[key] === null ? 'null' : typeof chunk[key]}`))
    .join(' ');

/** What the pinned releases' own chunk schemas say against these chunks. */
export async function schemaFaults(chunks) {
  const found = await Promise.all(chunks.map(chunk => once(`chunk ${chunkShape(chunk)}`, () => judgeChunk(chunk))));
  return [...new Set(found.flat())];
}

async function judgeChunk(chunk) {
  const faults = [];
  for (const version of VERSIONS) {
    if (!hasApprovals(version) && ONLY_WITH_APPROVALS.has(chunk.type)) continue;
    const { ai } = await loadVersion(version);
    const result = await ai.uiMessageChunkSchema().validate(chunk);
    if (!result.success) faults.push(`ai ${version} refuses ${JSON.stringify(chunk).slice(0, 300)}`);
  }
  return faults;
}

const KEPT = new Set(['type', 'state', 'role']);

const messageShape = value =>
  JSON.stringify(value, (key, item) => (typeof item === 'string' && !KEPT.has(key) ? 'text' : typeof item === 'number' ? 0 : item));

/** What `validateUIMessages` of the pinned releases says against a snapshot's messages. */
export async function snapshotFaults(messages) {
  if (messages.length === 0) return []; // none of them accepts an empty list, and none is asked to
  return once(`messages ${messageShape(messages)}`, () => judgeMessages(messages));
}

const hasApprovalState = messages =>
  messages.some(message => message.parts.some(part => part.state?.startsWith('approval-') || part.state === 'output-denied'));

async function judgeMessages(messages) {
  const faults = [];
  for (const version of VERSIONS) {
    if (!hasApprovals(version) && hasApprovalState(messages)) continue;
    const { ai } = await loadVersion(version);
    try {
      await ai.validateUIMessages({ messages: structuredClone(messages) });
    } catch (error) {
      faults.push(`validateUIMessages of ai ${version}: ${error.message.replaceAll(/\s+/g, ' ').slice(0, 300)}`);
    }
  }
  return faults;
}
