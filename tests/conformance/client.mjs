// One real chat of one pinned release against a running server, with everything it sends counted.

import { setTimeout as sleep } from 'node:timers/promises';

import { check } from './failure.mjs';
import { isTool, toolName } from './view.mjs';
import { createChat, predicateOf } from './versions.mjs';
import { record } from './wire.mjs';

const MAX_POSTS = 15; // a chat that sends more than this is looping; the next request fails inside the client
const SETTLED_MS = 250;
const POLL_MS = 20;
const STUCK_MS = 60_000;

export class Client {
  posts = 0;
  gets = 0;
  looped = false;
  exchanges = [];
  finishes = [];
  errors = [];
  toolCalls = [];
  dataParts = [];
  decided = new Set();
  #inFlight = 0;
  #evaluations = 0;
  #loseNext = false;

  constructor({ release, predicate, state, api, chatId, messages = [], resume = false, prepare }) {
    const stock = predicateOf(release.ai, predicate);
    this.chat = createChat(release, state, {
      id: chatId,
      messages: structuredClone(messages),
      resume,
      transport: new release.ai.DefaultChatTransport({
        api,
        fetch: (...request) => this.#fetch(...request),
        prepareSendMessagesRequest: prepare && (request => ({ body: prepare(request) })),
      }),
      sendAutomaticallyWhen: options => {
        this.#evaluations += 1;
        return stock(options);
      },
      onFinish: finish => this.finishes.push(finish),
      onError: error => this.errors.push(error),
      onToolCall: ({ toolCall }) => {
        this.toolCalls.push(toolCall.toolCallId);
      },
      onData: part => this.dataParts.push(part),
    });
  }

  async #fetch(input, init = {}) {
    const method = init.method ?? 'GET';
    if (method === 'POST' && this.posts >= MAX_POSTS) {
      this.looped = true;
      throw new Error('the harness ends a loop');
    }
    if (method === 'POST') this.posts += 1;
    else this.gets += 1;

    const body = method === 'POST' ? JSON.parse(init.body) : undefined;
    const exchange = { method, url: String(input), body, continues: body && continuedId(body), faults: [], chunks: [] };
    this.exchanges.push(exchange);
    this.#inFlight += 1;
    try {
      const answered = await fetch(input, init);
      if (this.#loseNext) return await this.#lose(answered, exchange);
      const response = await record(answered, exchange);
      if (exchange.ended) this.#follow(exchange.ended);
      return response;
    } catch (error) {
      exchange.failure = error;
      throw error;
    } finally {
      this.#inFlight -= 1;
    }
  }

  async #follow(ended) {
    this.#inFlight += 1;
    await ended;
    this.#inFlight -= 1;
  }

  async #lose(response, exchange) {
    this.#loseNext = false;
    exchange.lost = true;
    await response.body.cancel();
    throw new TypeError('fetch failed');
  }

  // what the person does -----------------------------------------------------------------------------------------------

  send(text, options = {}) {
    this.#background(chat => chat.sendMessage({ text, ...options }));
  }

  /** The list as it is, sent again: what an app does when no predicate does it. */
  submit() {
    this.#background(chat => chat.sendMessage());
  }

  regenerate(options) {
    this.#background(chat => chat.regenerate(options));
  }

  resume() {
    this.#background(chat => chat.resumeStream());
  }

  /** The stock `stop()`: it closes the socket and nothing else. */
  disconnect() {
    for (const exchange of this.exchanges) exchange.cut ||= !exchange.closed;
    return this.chat.stop();
  }

  answer(call, output) {
    const part = this.#open(call, 'input-available');
    return this.chat.addToolOutput({ tool: toolName(part), toolCallId: part.toolCallId, output });
  }

  answerError(call, errorText) {
    const part = this.#open(call, 'input-available');
    return this.chat.addToolOutput({ state: 'output-error', tool: toolName(part), toolCallId: part.toolCallId, errorText });
  }

  decide(call, approved, reason) {
    const { approval } = this.#open(call, 'approval-requested');
    this.decided.add(approval.id);
    return this.chat.addToolApprovalResponse({ id: approval.id, approved, ...(reason && { reason }) });
  }

  /** The next response is lost on its way: the server took the request, the client sees a network failure. */
  loseNextResponse() {
    this.#loseNext = true;
  }

  // A request's own failure is in `errors` and `status`; its promise tells nothing more.
  async #background(action) {
    try {
      await this.ready;
      await action(this.chat);
    } catch (error) {
      this.errors.push(error);
    }
  }

  /** A page can be used when it is mounted; a bare chat at once. */
  get ready() {
    return this.chat.ready;
  }

  // what it shows ------------------------------------------------------------------------------------------------------

  get messages() {
    return this.chat.messages;
  }

  get status() {
    return this.chat.status;
  }

  get last() {
    return this.chat.messages.at(-1);
  }

  /** Text of the newest answer is being told. */
  get telling() {
    return this.last?.role === 'assistant' && this.last.parts.at(-1)?.type === 'text';
  }

  /** The newest part of a call, by call id or tool name. */
  part(call) {
    const parts = this.chat.messages.flatMap(message => message.parts).filter(isTool);
    return parts.findLast(part => part.toolCallId === call || toolName(part) === call);
  }

  /** The call is there for the page to execute or to finish showing. */
  shows(call) {
    return this.part(call)?.state === 'input-available';
  }

  #open(call, state) {
    const part = this.part(call);
    check(part?.state === state, () => `${call} is ${part?.state ?? 'not shown'} where the person should find it ${state}`);
    return part;
  }

  get refused() {
    return this.exchanges.filter(exchange => exchange.status >= 400);
  }

  // waiting ------------------------------------------------------------------------------------------------------------

  #activity() {
    const { length } = this.exchanges;
    return `${length}/${this.exchanges.at(-1)?.chunks.length}/${this.status}/${this.#inFlight}/${this.#evaluations}/${this.finishes.length}`;
  }

  #busy() {
    return this.status === 'submitted' || this.status === 'streaming' || this.#inFlight > 0;
  }

  /** Resolves when nothing has moved for `quiet` ms, of which a blocked event loop's time counts little. */
  async settled(quiet = SETTLED_MS) {
    const deadline = Date.now() + STUCK_MS;
    let seen = '';
    for (let still = 0; still < quiet; ) {
      const before = Date.now();
      await sleep(POLL_MS);
      still += Math.min(Date.now() - before, 2 * POLL_MS);
      if (still >= quiet) await this.chat.rendered?.();
      const now = this.#activity();
      if (now !== seen || this.#busy()) still = 0;
      seen = now;
      check(Date.now() < deadline, () => `stuck: ${now} after ${STUCK_MS / 1000} s`);
    }
  }

  /** Resolves when the condition holds, which it must do before long. */
  async until(condition, what) {
    const deadline = Date.now() + STUCK_MS;
    while (!condition(this)) {
      check(Date.now() < deadline, () => `waited in vain until ${what} (status ${this.status}, ${this.#activity()})`);
      await sleep(POLL_MS);
    }
  }
}

// The message that the answer must append to: the one that is named when it is an assistant's, else the trailing one.
function continuedId({ message, messages = [message], messageId, trigger }) {
  if (trigger !== 'submit-message') return undefined;
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return undefined;
  const named = messages.find(message => message.id === messageId);
  return named?.role === 'assistant' ? named.id : last.id;
}
