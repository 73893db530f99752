// A page that is loaded anew again and again at random moments of its turn shows at the end what an undisturbed one shows.
//
// The seed is in the name of the cell, the moments are in its failure. RELOAD_SEED=… draws others.

import { setTimeout as sleep } from 'node:timers/promises';

import { Cell, script } from '../cell.mjs';
import { check, CellFailure, equal } from '../failure.mjs';
import { comparable } from '../view.mjs';
import { email } from './approvals.mjs';

const FIRST_SEED = Number(process.env.RELOAD_SEED ?? 1);
const CHATS = 10;
const RELOADS = 5; // of each chat before it answers: fifty for each release

const PACE = { chunks: 12, delay_ms: 60 };
const SLOW_MS = 900;
const ASKED_MS = 2 * PACE.chunks * PACE.delay_ms + SLOW_MS; // when the turn asks the person, or a little later
const MOMENTS_MS = ASKED_MS + 300; // some of the moments are after that
const TOLD_MS = PACE.chunks * PACE.delay_ms + 200; // how long the last step is told

const TURN = [
  {
    reasoning: 'First the weather, and something that takes its time.',
    text: 'I look at the weather first, and do something slow beside it.',
    ...PACE,
    calls: [
      { tool: 'get_weather', input: { city: 'Oslo' }, id: 'weather' },
      { tool: 'slow', input: { ms: SLOW_MS }, id: 'slow' },
    ],
  },
  {
    reasoning: 'Now the person is needed.',
    text: 'Now I have to know where you are, and whether I may write to Ada.',
    ...PACE,
    calls: [{ tool: 'get_location', input: {}, id: 'where' }, email('mail')],
  },
  { text: 'The letter is sent, and that is all there was to do today.', ...PACE },
];
const SERVER_TOOLS = ['get_weather:output-available!', 'slow:output-available!'];
const CLIENT_STEP = ['get_location:output-available', 'send_email:output-available!'];
const PARTS = ['|', 'reasoning', 'text', ...SERVER_TOOLS, '|', 'reasoning', 'text', ...CLIENT_STEP, '|', 'text'];

/** Numbers in [0, 1) that follow from the seed: mulberry32. */
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The release with a transport whose sockets close with the page, those of a resume too: `stop()` leaves these in early releases. */
function ofAPage(release, gone) {
  class DefaultChatTransport extends release.ai.DefaultChatTransport {
    constructor({ fetch, ...options }) {
      const signalOf = ({ signal } = {}) => (signal ? AbortSignal.any([signal, gone]) : gone);
      super({ ...options, fetch: (input, init) => fetch(input, { ...init, signal: signalOf(init) }) });
    }
  }
  return { ...release, ai: { ...release.ai, DefaultChatTransport } };
}

/** The pages of one chat, one after the other. `posts` counts what all of them sent, also those that are gone. */
class Tab {
  #pages = [];
  #gone;

  constructor(cell) {
    this.cell = cell;
    this.#show({});
  }

  get page() {
    return this.#pages.at(-1);
  }

  get posts() {
    return this.#pages.reduce((sum, { posts }) => sum + posts, 0);
  }

  #show(options) {
    this.#gone = new AbortController();
    this.#pages.push(this.cell.open({ ...options, release: ofAPage(this.cell.release, this.#gone.signal) }));
  }

  async reload() {
    for (const exchange of this.page.exchanges) exchange.cut ||= !exchange.closed;
    this.#gone.abort();
    const { messages, live } = await this.cell.snapshot();
    equal(messages.map(({ role }) => role), live ? ['user'] : ['user', 'assistant'], 'the snapshot of a reload');
    this.#show({ messages, resume: live });
  }
}

/** Both answers of the step, in this order; resolves when the server has taken them. */
async function answer({ page }, approvalFirst) {
  const answers = [() => page.answer('where', { lat: 38.7 }), () => page.decide('mail', true)];
  const before = page.exchanges.length;
  for (const give of approvalFirst ? answers.reverse() : answers) await give();
  await page.until(({ exchanges }) => exchanges[before]?.status !== undefined, 'the answers are sent');
  equal(page.exchanges[before].status, 200, 'status of the answers');
}

/** The turn from its message to its end, reloaded at `moments`, and `late` ms after the answers when that is a number. */
async function turn(cell, { moments = [], late, approvalFirst = false } = {}) {
  const tab = new Tab(cell);
  tab.page.send(script(TURN));
  await tab.page.until(({ exchanges }) => exchanges[0]?.status === 200, 'the turn begins');
  const began = Date.now();
  for (const moment of moments) {
    await sleep(began + moment - Date.now());
    await tab.reload();
  }
  await tab.page.settled();
  equal([tab.page.status, tab.posts], ['ready', 1], 'status and POSTs before the answers');
  await answer(tab, approvalFirst);
  if (late !== undefined) {
    await sleep(late);
    await tab.reload();
  }
  const { page } = tab;
  const snapshot = await cell.finish(page, { posts: page.posts, parts: PARTS });
  equal(tab.posts, 2, 'POSTs of all pages');
  equal(page.messages.length, 2, 'messages');
  equal(snapshot.status, 'idle', 'status of the snapshot');
  return { page, snapshot };
}

/** The messages without the ids that are minted for each chat; where `decided`, with what was decided. */
function unminted({ messages }, decided) {
  const hidden = messages.map(message => ({
    ...message,
    id: message.role,
    parts: message.parts.map(part => (part.approval ? { ...part, approval: { ...part.approval, id: 'minted' } } : part)),
  }));
  return comparable(hidden, new Set(decided ? ['minted'] : []));
}

const undisturbed = new Map();

/** The same turn on the same release in a chat that nobody reloads: played once for all seeds. */
function undisturbedOf({ server, release, predicate, state }) {
  if (!undisturbed.has(release.version)) undisturbed.set(release.version, turn(new Cell({ server, release, predicate, state })));
  return undisturbed.get(release.version);
}

async function equalsUndisturbed(cell, plan) {
  const [expected, { page, snapshot }] = await Promise.all([undisturbedOf(cell), turn(cell, plan)]);
  const decided = page.decided.size > 0;
  check(decided === (plan.late === undefined), 'only a page that is not loaded anew knows its own decision');
  equal(unminted(page, decided), unminted(expected.page, decided), 'the page against the undisturbed one');
  equal(unminted(snapshot, true), unminted(expected.snapshot, true), 'the snapshot against the undisturbed one');
}

function reloaded(seed) {
  return async t => {
    const number = numbers(seed);
    const moments = Array.from({ length: RELOADS }, () => Math.round(number() * MOMENTS_MS)).sort((one, other) => one - other);
    // Every other chat is reloaded once more, while it is told what came of its answers.
    const late = number() < 0.5 ? Math.round(number() * TOLD_MS) : undefined;
    const plan = { moments, late, approvalFirst: number() < 0.5 };
    try {
      await equalsUndisturbed(t, plan);
    } catch (error) {
      if (error instanceof CellFailure) error.message += `; RELOAD_SEED=${seed} ${JSON.stringify(plan)}`;
      throw error;
    }
  };
}

const seeds = Array.from({ length: CHATS }, (_, index) => FIRST_SEED + index);

export default Object.fromEntries(seeds.map(seed => [`reloads at random moments, seed ${seed}`, reloaded(seed)]));
