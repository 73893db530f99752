// The submit contract: what a request with answers gets when they do not simply continue the run.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';

const locate = (id = 'loc') => ({ tool: 'get_location', input: {}, id });
const pick = (id = 'pick') => ({ tool: 'pick_option', input: { question: 'Which?', options: ['a', 'b'] }, id });
const here = { lat: 38.7 };

const REJECTED = 'data-resume-rejected';
const ELSEWHERE = 'data-tool-output-elsewhere';

/** The newest 200 is the harmless step and nothing else. */
function isHarmlessStep(client, data = []) {
  const { status, chunks } = client.exchanges.at(-1);
  equal(status, 200, 'status of a case B');
  const types = chunks.map(chunk => chunk.type);
  const expected = ['start', 'start-step', 'start', ...data.map(([type]) => type), 'finish-step', 'finish'];
  equal(types, expected, 'chunks of a case B');
  const sent = chunks.filter(chunk => chunk.type.startsWith('data-')).map(chunk => [chunk.type, chunk.data]);
  equal(sent, data, 'data of a case B');
  equal(chunks.filter(chunk => chunk.transient).length, 0, 'transient data of a case B');
}

async function elsewhere(t, answers, expected) {
  const { status, body } = await t.server.answers(t.chatId, answers);
  equal([status, body.outcomes?.map(({ outcome }) => outcome)], [200, expected], 'answers from elsewhere');
}

export default {
  'awaiting_batch: one of two calls answered here, the other elsewhere': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.act(client, () => client.submit(), 1);
    isHarmlessStep(client);
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', 'pick_option:input-available'] });
    await elsewhere(t, [{ toolCallId: 'pick', output: 'a' }], ['stored']);
    await t.rested();
    const page = await t.load();
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(page, { posts: 0, parts });
  },

  'awaiting_batch healed by a reload': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.act(client, () => client.submit(), 1);
    const page = await t.load({ sameAs: client });
    await t.complete(page, 'client calls', () => page.answer('pick', 'b'));
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(page, { posts: 1, parts });
  },

  'awaiting_batch: the known limit in the same page, healed by sending': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.act(client, () => client.submit(), 1);
    await t.act(client, () => client.answer('pick', 'b'), 0); // the harmless step hides the call from every predicate
    await t.act(client, () => client.submit(), 1);
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(client, { posts: 3, parts });
  },

  'the other half was answered elsewhere first': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await elsewhere(t, [{ toolCallId: 'pick', output: 'a' }], ['stored']);
    await t.act(client, () => client.answer('loc', here), 0); // this page still shows the other call open
    await t.act(client, () => client.submit(), 1);
    const parts = ['|', 'get_location:output-available', 'pick_option:output-available', '|', 'text'];
    await t.finish(client, { posts: 2, parts });
  },

  'consumed: another page answers a drained call with the same value': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    const late = await t.load();
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.complete(late, 'client calls', () => late.answer('loc', here));
    isHarmlessStep(late);
    await t.finish(late, { posts: 1, parts: ['|', 'get_location:output-available'], compare: false });
  },

  'consumed: another page answers a drained call with another value': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    const late = await t.load();
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.complete(late, 'client calls', () => late.answer('loc', { lat: 0 }));
    isHarmlessStep(late, [[ELSEWHERE, { toolCallId: 'loc' }]]);
    await t.finish(late, { posts: 1, compare: false });
    await t.finish(client, { posts: 2, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'consumed: the same answers sent again when all is over': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.act(client, () => client.submit(), 1);
    isHarmlessStep(client);
    await t.finish(client, { posts: 3, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'nothing to answer: the list sent again when all is over': unanswered(async t => {
    const client = await t.begin([{ text: 'All said.' }]);
    await t.act(client, () => client.submit(), 1);
    isHarmlessStep(client);
    await t.finish(client, { posts: 2, parts: ['|', 'text'] });
  }),

  'new_run: another page answers while the continuation is told': async t => {
    const client = await t.begin([{ calls: [locate()] }, t.heldText]);
    const late = await t.load();
    await t.give(client, 'client calls', () => client.answer('loc', here));
    await client.until(() => client.last.parts.some(part => part.type === 'text'), 'the continuation arrives');
    await t.give(late, 'client calls', () => late.answer('loc', { lat: 0 }));
    await late.until(() => late.telling, 'the continuation is told to the other page too');
    await t.letGo();
    const parts = ['|', 'get_location:output-available', '|', 'text'];
    await Promise.all([t.finish(client, { posts: 2, parts }), t.finish(late, { posts: 1, parts })]);
    equal(late.part('loc').output, here, 'the first answer stays');
  },

  'new_run: another page answers when the run waits again': async t => {
    const client = await t.begin([{ calls: [locate()] }, { text: 'And?', calls: [pick()] }]);
    const late = await t.load();
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.complete(late, 'client calls', () => late.answer('loc', here));
    equal(late.part('pick').state, 'input-available', 'the next call');
    await t.complete(late, 'client calls', () => late.answer('pick', 'a'));
    const parts = ['|', 'get_location:output-available', '|', 'text', 'pick_option:output-available', '|', 'text'];
    await t.finish(late, { posts: 2, parts });
  },

  're-anchored: drained answers sent while the next call waits': async t => {
    const client = await t.begin([{ calls: [locate()] }, { text: 'And?', calls: [pick()] }]);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    await t.act(client, () => client.submit(), 1);
    isHarmlessStep(client, [[ELSEWHERE, { toolCallId: 'loc' }]]);
    const waiting = ['|', 'get_location:output-available', '|', 'text', 'pick_option:input-available'];
    await t.finish(client, { posts: 3, parts: waiting });
    const page = await t.load({ sameAs: client });
    await t.complete(page, 'client calls', () => page.answer('pick', 'a'));
    const parts = [...waiting.slice(0, -1), 'pick_option:output-available', '|', 'text'];
    await t.finish(page, { posts: 1, parts });
  },

  'one answer stored, one for a call that is unknown': async t => {
    const begun = await t.begin([{ calls: [locate()] }]);
    const messages = structuredClone(begun.messages);
    messages.at(-1).parts.push({ ...messages.at(-1).parts.at(-1), toolCallId: 'ghost' });
    const client = t.open({ messages });
    await t.complete(client, 'client calls', () => Promise.all([client.answer('ghost', 1), client.answer('loc', here)]));
    const sent = client.exchanges[0].chunks.filter(chunk => chunk.type === REJECTED).map(chunk => chunk.data);
    equal(sent, [{ toolCallId: 'ghost', reason: 'unknown-tool-call' }], 'rejections that ride along');
    await t.finish(client, { posts: 1, compare: false });
    await t.finish(await t.load(), { posts: 0, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  '409 unknown_tool_call: a call this session never had': async t => {
    const begun = await t.begin([{ calls: [locate()] }]);
    const messages = structuredClone(begun.messages);
    messages.at(-1).parts.at(-1).toolCallId = 'ghost';
    const client = t.open({ messages });
    await t.complete(client, 'client calls', () => client.answer('ghost', here));
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'unknown_tool_call' });
    await t.finish(client, { posts: 1, status: 'error', compare: false });
  },

  '409 unknown_tool_call: a session that does not exist': async t => {
    const part = { type: 'tool-get_location', toolCallId: 'loc', state: 'input-available', input: {} };
    const messages = [
      { id: 'u', role: 'user', parts: [{ type: 'text', text: 'hello' }] },
      { id: 'a', role: 'assistant', parts: [{ type: 'step-start' }, part] },
    ];
    const client = t.open({ messages });
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'unknown_tool_call' });
    await client.settled(3000);
    equal([client.posts, client.status], [1, 'error'], 'POSTs and status');
  },

  '409 stale_run: the turn was abandoned in another page': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    const other = await t.load();
    await t.act(other, () => other.send(script([{ text: 'Something else.' }])), 1);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'stale_run' });
    await t.finish(client, { posts: 2, status: 'error', compare: false });
  },

  '409 run_stopped: the run was stopped in another page': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    equal((await t.server.stop(t.chatId)).body.status, 'stopped', 'status of the stop');
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'run_stopped' });
    await t.finish(client, { posts: 2, status: 'error', compare: false });
  },

  'answering again after a refusal sends once more': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.server.stop(t.chatId);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    const again = () => client.chat.addToolOutput({ tool: 'get_location', toolCallId: 'loc', output: { lat: 1 } });
    await t.act(client, again, t.sends('client calls'));
    await t.finish(client, { posts: 2 + t.sends('client calls'), status: 'error', compare: false });
  },
};
