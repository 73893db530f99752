// One cell of the matrix: a scenario on one release, predicate and state, and what every cell asserts.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from './client.mjs';
import { check, equal, fail } from './failure.mjs';
import { schemaFaults, snapshotFaults, streamFaults } from './grammar.mjs';
import { finishesOnEmptyResume } from './versions.mjs';
import { comparable, hasUnstored, reportedResults, storedOutline, withoutSteps } from './view.mjs';
import { refusalOf } from './wire.mjs';

const QUIET_MS = 3000;
const RESTED_WITHIN_MS = 60_000;
const RESTED_POLL_MS = 50;

/** Which stock predicate sends when the last open call of a step of this kind is answered. */
const SENDS = {
  'client calls': ['tool-calls', 'or'],
  approvals: ['approvals', 'or'],
  both: ['approvals', 'or'],
};

/** The text of a user message that drives the scripted model step by step. */
export const script = steps => `script:${JSON.stringify(steps)}`;

export class Cell {
  constructor({ server, release, predicate, state }) {
    Object.assign(this, { server, release, predicate, state });
    this.chatId = `conf-${randomUUID()}`;
  }

  open(options = {}) {
    const { release, predicate, state, chatId } = this;
    return new Client({ release, predicate, state, chatId, api: this.server.chat, ...options });
  }

  /** A chat that has sent the script and shows what the run waits for, or its end. */
  async begin(steps, options) {
    const client = this.open(options);
    await this.act(client, () => client.send(script(steps)), 1);
    return client;
  }

  /** A step whose text is held after its first words until `letGo()`: what a scenario does meanwhile, it does in mid-run. */
  get heldText() {
    return { text: `A long answer [at ${this.chatId}] that takes its time to be told.`, chunks: 25, delay_ms: 20 };
  }

  /** A server tool that runs until `letGo()`. */
  get heldCall() {
    return { tool: 'hold', input: { gate: this.chatId }, id: 'held' };
  }

  letGo() {
    return this.server.letGo(this.chatId);
  }

  snapshot() {
    return this.server.snapshot(this.chatId);
  }

  /** The snapshot of a run that rests: it waits for somebody, or is over. */
  async rested() {
    for (const end = Date.now() + RESTED_WITHIN_MS; ; await sleep(RESTED_POLL_MS)) {
      const snapshot = await this.snapshot();
      if (!snapshot.live) return snapshot;
      check(Date.now() < end, () => `still running after ${RESTED_WITHIN_MS / 1000} s`);
    }
  }

  /** A page load: the snapshot becomes the first messages of a new chat, which resumes when the run is live. */
  async load({ sameAs, ...options } = {}) {
    const snapshot = await this.snapshot();
    if (sameAs) this.#compare(sameAs, snapshot.messages, 'the page before the reload');
    const client = this.open({ messages: snapshot.messages, resume: snapshot.live, ...options });
    await client.ready;
    await client.settled();
    equal(client.posts, 0, 'POSTs on load');
    return client;
  }

  /** A page load while a run is held: resolves when its replay shows what `shown` asks for, the text that is told if nothing. */
  async join(shown = ({ telling }) => telling) {
    const { messages, live } = await this.snapshot();
    equal(live, true, 'the snapshot is of a live run');
    const page = this.open({ messages, resume: true });
    await page.until(shown, 'the replay arrives');
    equal(page.exchanges.at(-1).status, 200, 'status of the resume');
    return page;
  }

  /** How many requests this predicate makes of its own when the last open call of the step is answered. */
  sends(kind) {
    return SENDS[kind].includes(this.predicate) ? 1 : 0;
  }

  /** Does something and asserts how many POSTs follow; that none follows is believed after the whole quiet time only. */
  async act(client, action, posts) {
    await client.ready;
    const before = client.posts;
    await action();
    if (posts > 0) await client.until(({ looped }) => looped || client.posts >= before + posts, `${posts} POSTs are made`);
    await client.settled(posts === 0 ? QUIET_MS : undefined);
    const fault = client.exchanges.find(({ status }) => status >= 500);
    check(!fault, () => `${fault.method} answered ${fault.status}: ${fault.text}`);
    equal(client.posts - before, posts, 'POSTs after an action');
  }

  /** Gives the last answer of a step; where this predicate never sends, the app sends. */
  async complete(client, kind, action) {
    await this.act(client, action, this.sends(kind));
    if (this.sends(kind) === 0) await this.act(client, () => client.submit(), 1);
  }

  /** The same without waiting: the app sends at once where the predicate does not. */
  async give(client, kind, action) {
    await action();
    if (this.sends(kind) === 0) client.submit();
  }

  /**
   * What must hold when all is said: counted over the quiet time, against the snapshot, and in every stream received.
   * `parts` is the outline of the newest message; `compare` is `whole`, `turn` (the newest turn only) or false.
   */
  async finish(client, { posts, parts, status = 'ready', turns = 1, results, finishes, compare = 'whole', unstoredSteps = false, emptySteps = false }) {
    await client.settled(QUIET_MS);
    check(!client.looped, 'the chat loops');
    equal(client.posts, posts, `POSTs in all (${QUIET_MS} ms quiet)`);
    if (client.status !== status) fail(`status ${client.status}, expected ${status}${client.chat.error ? `: ${client.chat.error.message}` : ''}`);
    equal(client.finishes.length, finishes ?? this.#expectedFinishes(client), 'calls of onFinish');
    this.#checkTurns(client, turns);
    if (parts) equal(storedOutline(client.last), parts, 'parts of the message');
    if (results) equal(reportedResults(client.last), results, 'results the model was given');
    await this.#checkStreams(client);

    const snapshot = await this.snapshot();
    const faults = await snapshotFaults(snapshot.messages);
    check(faults.length === 0, () => `snapshot: ${faults.join('; ')}`);
    const unstored = snapshot.messages.filter(message => message.role === 'assistant' && hasUnstored(message));
    check(emptySteps || unstored.length === 0, () => `snapshot: an unstored boundary in ${JSON.stringify(unstored)}`);
    equal(snapshot.live, snapshot.status === 'running', 'snapshot: live');
    if (compare) this.#compare(client, snapshot.messages, 'the page', { turnOnly: compare === 'turn', unstoredSteps });
    return snapshot;
  }

  /** The typed body of the client's newest refusal. */
  refusal(client, status, expected) {
    const exchange = client.exchanges.at(-1);
    equal(exchange.status, status, 'status of the refusal');
    check(exchange.responseHeaders.get('x-session-id'), 'refusal: no X-Session-Id');
    const { error, ...rest } = refusalOf(exchange);
    equal(rest, expected, 'refusal');
    check(client.chat.error?.message.includes(error), () => `chat.error is ${client.chat.error?.message}`);
  }

  #expectedFinishes(client) {
    const silent = ({ method, status }) =>
      // A resume that strict mode's second mount took back, and one with nothing to resume.
      (method === 'GET' && status === undefined) || (status === 204 && !finishesOnEmptyResume(this.release.version));
    return client.exchanges.filter(exchange => !silent(exchange)).length;
  }

  #checkTurns(client, turns) {
    const roles = client.messages.map(message => message.role);
    equal(roles.filter(role => role === 'user').length, turns, `user messages in ${roles}`);
    for (const [index, role] of roles.entries()) {
      check(role === 'user' || roles[index - 1] === 'user', () => `a turn with more than one assistant message: ${roles}`);
    }
    equal(new Set(client.messages.map(message => message.id)).size, roles.length, 'distinct message ids');
  }

  async #checkStreams(client) {
    for (const exchange of client.exchanges) {
      if (exchange.status !== 200) continue;
      const faults = exchange.cut || exchange.lost ? [] : streamFaults(exchange);
      if (!exchange.closed && !exchange.cut && !exchange.lost) faults.push('the stream did not end');
      faults.push(...(await schemaFaults(exchange.chunks)));
      check(faults.length === 0, () => `stream of ${exchange.method}: ${faults.join('; ')}`);
    }
  }

  #compare(client, stored, label, { turnOnly = false, unstoredSteps = false } = {}) {
    const views = [client.messages, stored].map(messages => comparable(messages, client.decided));
    const tail = messages => messages.slice(messages.findLastIndex(message => message.role === 'user'));
    const [shown, reloaded] = views.map(view => (turnOnly ? tail(view) : view)).map(view => (unstoredSteps ? withoutSteps(view) : view));
    equal(shown, reloaded, `${label} against the snapshot`);
  }
}
