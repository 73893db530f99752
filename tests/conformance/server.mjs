// The server's own routes, as a page, another tab or a webhook would call them.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { check } from './failure.mjs';

const CALM_MS = 150;
const CALM_WITHIN_MS = 60_000;

export class Server {
  constructor(origin) {
    this.origin = origin.replace(/\/$/, '');
    this.chat = `${this.origin}/chat`;
  }

  #url(chatId, tail = '') {
    return `${this.chat}/${encodeURIComponent(chatId)}${tail}`;
  }

  /** Waits, for a while at most, until the server answers at once. */
  async calm() {
    const end = Date.now() + CALM_WITHIN_MS;
    while (Date.now() < end) {
      const asked = Date.now();
      await (await fetch(`${this.origin}/health/live`)).text();
      if (Date.now() - asked < CALM_MS) return;
      await sleep(CALM_MS);
    }
  }

  async snapshot(chatId) {
    const response = await fetch(this.#url(chatId));
    check(response.status === 200, () => `GET /chat/{id} answered ${response.status}`);
    return response.json();
  }

  async #post(url, body) {
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  answers(chatId, answers) {
    return this.#post(this.#url(chatId, '/answers'), { answers });
  }

  /** What a tool of the test agents gives, called in a chat of its own. */
  async call(tool, input) {
    const text = `script:${JSON.stringify([{ calls: [{ tool, input, id: 'call' }] }, {}])}`;
    const body = { id: `aside-${randomUUID()}`, messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text }] }] };
    const response = await fetch(this.chat, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    check(response.status === 200, () => `a call of ${tool} answered ${response.status}`);
    const frames = (await response.text()).split('\n').filter(line => line.startsWith('data: {'));
    const given = frames.map(line => JSON.parse(line.slice('data: '.length))).find(({ type }) => type.startsWith('tool-output-'));
    check(given?.type === 'tool-output-available', () => `a call of ${tool} gave ${JSON.stringify(given)}`);
    return given.output;
  }

  /** Opens the gate of this name. */
  letGo(gate) {
    return this.call('let_go', { gate });
  }

  /** The calls of a chat that took effect, once for each time they did. */
  effects(chatId) {
    return this.call('effects', { chat: chatId });
  }

  stop(chatId, body = {}) {
    return this.#post(this.#url(chatId, '/stop'), body);
  }
}
