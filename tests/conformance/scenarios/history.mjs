// Turns that replace others: regenerate, edit, a new message while something waits or runs.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';
import { storedOutline } from '../view.mjs';
import { email } from './approvals.mjs';

const locate = (id = 'loc') => ({ tool: 'get_location', input: {}, id });
const pick = (id = 'pick') => ({ tool: 'pick_option', input: { question: 'Which?', options: ['a', 'b'] }, id });
const here = { lat: 38.7 };

/** Stored assistant message of a turn, counted from 0. */
const stored = (snapshot, turn) => storedOutline(snapshot.messages.filter(({ role }) => role === 'assistant')[turn]);

export default {
  'regenerate': unanswered(async t => {
    const client = await t.begin([{ text: 'Once.' }]);
    const first = client.last.id;
    await t.act(client, () => client.regenerate(), 1);
    const { messages } = await t.finish(client, { posts: 2, parts: ['|', 'text'] });
    equal([messages.length, client.last.id === first], [2, false], 'stored messages, and the same message id');
  }),

  'regenerate an earlier answer': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const first = client.last.id;
    await t.act(client, () => client.send(script([{ text: 'Two.' }])), 1);
    await t.act(client, () => client.regenerate({ messageId: first }), 1);
    await t.finish(client, { posts: 3, turns: 1, parts: ['|', 'text'] });
    equal(client.last.parts.at(-1).text, 'One.', 'text');
  }),

  'regenerate while a client tool waits': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.act(client, () => client.regenerate(), 1);
    const fresh = client.last.parts.at(-1).toolCallId;
    await t.complete(client, 'client calls', () => client.answer(fresh, here));
    await t.finish(client, { posts: 3, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'edit of the last message': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const messageId = client.messages[0].id;
    await t.act(client, () => client.send(script([{ text: 'Edited.' }]), { messageId }), 1);
    const { messages } = await t.finish(client, { posts: 2, turns: 1, parts: ['|', 'text'] });
    equal([messages.length, client.last.parts.at(-1).text], [2, 'Edited.'], 'stored messages and text');
  }),

  'edit of an earlier message while a client tool waits': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const messageId = client.messages[0].id;
    await t.act(client, () => client.send(script([{ calls: [locate()] }])), 1);
    await t.act(client, () => client.send(script([{ text: 'Edited.' }]), { messageId }), 1);
    await t.finish(client, { posts: 3, turns: 1, parts: ['|', 'text'] });
  }),

  'a late answer to a turn that was edited away': async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    const other = await t.load();
    await t.act(other, () => other.send(script([{ text: 'Edited.' }]), { messageId: other.messages[0].id }), 1);
    await t.complete(client, 'client calls', () => client.answer('loc', here));
    t.refusal(client, 409, { code: 'state_not_resumable', cause: 'stale_run' });
    await t.finish(client, { posts: 2, status: 'error', compare: false });
    await t.finish(other, { posts: 1, parts: ['|', 'text'] });
  },

  'abandon: a new message while a client tool waits': unanswered(async t => {
    const client = await t.begin([{ calls: [locate()] }]);
    await t.act(client, () => client.send(script([{ text: 'Something else.' }])), 1);
    // No chunk can reach an earlier message, so this page shows the closed call as open until it is loaded again.
    const snapshot = await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'], compare: 'turn' });
    equal(stored(snapshot, 0), ['|', 'get_location:output-error!'], 'the abandoned message');
    const page = await t.load();
    await t.act(page, () => page.send(script([{ text: 'And on.' }])), 1);
    await t.finish(page, { posts: 1, turns: 3, parts: ['|', 'text'] });
  }),

  'abandon: answers in the posted message are taken first': async t => {
    const client = await t.begin([{ calls: [locate(), pick()] }]);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.act(client, () => client.send(script([{ text: 'Something else.' }])), 1);
    const snapshot = await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'], compare: 'turn' });
    equal(stored(snapshot, 0), ['|', 'get_location:output-available', 'pick_option:output-error!'], 'the abandoned message');
    equal(snapshot.messages[1].parts[1].output, here, 'the answer that was taken');
  },

  'a new message of another page while a run is told': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const other = await t.load();
    client.send(script([t.heldText]));
    await client.until(() => client.messages.length === 4 && client.telling, 'text arrives');
    await t.act(other, () => other.send('Me too.'), 1);
    t.refusal(other, 409, { code: 'state_run_active' });
    await t.letGo();
    await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'] });
    // Nothing of the refused request was stored, so the same message can be sent again.
    await t.act(other, () => other.submit(), 1);
    equal(other.status, 'ready', 'status of the page that was refused');
  }),
};

export const withApprovals = {
  'abandon: a new message while an approval waits': unanswered(async t => {
    const client = await t.begin([{ calls: [email()] }]);
    await t.act(client, () => client.send(script([{ text: 'Something else.' }])), 1);
    const snapshot = await t.finish(client, { posts: 2, turns: 2, parts: ['|', 'text'], compare: 'turn' });
    equal(stored(snapshot, 0), ['|', 'send_email:output-error!'], 'the abandoned message');
    equal(snapshot.messages[1].parts[1].approval, undefined, 'approval of a call that was closed');
  }),
};
