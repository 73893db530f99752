// A page that is loaded anew: in each waiting state, in mid-run, and when all is over.

import { unanswered } from '../applies.mjs';
import { script } from '../cell.mjs';
import { check, equal } from '../failure.mjs';
import { email } from './approvals.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const pick = { tool: 'pick_option', input: { question: 'Which?', options: ['a', 'b'] }, id: 'pick' };
const here = { lat: 38.7 };

/** The live page and one that is loaded while the run goes on must end the same. */
async function resumed(t, live, expected) {
  const page = await t.join();
  await t.letGo();
  await Promise.all([t.finish(live, expected), t.finish(page, { ...expected, posts: 0 })]);
  return page;
}

export const waiting = {
  'reload while a client tool waits, then answered': async t => {
    const page = await t.load({ sameAs: await t.begin([{ text: 'Where?', calls: [locate] }]) });
    await t.complete(page, 'client calls', () => page.answer('loc', here));
    await t.finish(page, { posts: 1, parts: ['|', 'text', 'get_location:output-available', '|', 'text'] });
  },

  'reload while a client tool waits, then failed': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [locate] }]) });
    await t.complete(page, 'client calls', () => page.answerError('loc', 'no'));
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-error', '|', 'text'] });
  },

  'reload while two client tools wait and a server tool is done': async t => {
    const weather = { tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' };
    const page = await t.load({ sameAs: await t.begin([{ calls: [locate, weather, pick] }]) });
    await t.act(page, () => page.answer('loc', here), 0);
    await t.complete(page, 'client calls', () => page.answer('pick', 'b'));
    const parts = ['get_location:output-available', 'get_weather:output-available!', 'pick_option:output-available'];
    await t.finish(page, { posts: 1, parts: ['|', ...parts, '|', 'text'] });
  },

  'reload after the turn is over': unanswered(async t => {
    const client = await t.begin([{ text: 'One.' }]);
    const page = await t.load({ sameAs: client });
    await t.act(page, () => page.resume(), 0);
    equal(page.exchanges.map(exchange => exchange.status), [204], 'nothing to resume');
    await t.act(page, () => page.send(script([{ text: 'Two.' }])), 1);
    await t.finish(page, { posts: 1, turns: 2, parts: ['|', 'text'] });
  }),

  'resume of a chat that waits': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [locate] }]) });
    await t.act(page, () => page.resume(), 0);
    equal(page.exchanges.map(exchange => exchange.status), [204], 'nothing to resume');
    await t.complete(page, 'client calls', () => page.answer('loc', here));
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-available', '|', 'text'] });
  },

  'reload in mid-run': unanswered(async t => {
    const live = t.open();
    live.send(script([{ calls: [{ tool: 'get_weather', input: { city: 'Oslo' }, id: 'w' }] }, t.heldText]));
    await live.until(() => live.telling, 'text arrives');
    const { messages, live: isLive } = await t.snapshot();
    equal([isLive, messages.map(message => message.role)], [true, ['user']], 'the snapshot of a live run');
    await resumed(t, live, { posts: 1, parts: ['|', 'get_weather:output-available!', '|', 'text'] });
  }),

  'reload in mid-run of the second turn': unanswered(async t => {
    const live = await t.begin([{ text: 'One.' }]);
    live.send(script([t.heldText]));
    await live.until(() => live.messages.length === 4 && live.telling, 'text arrives');
    await resumed(t, live, { posts: 2, turns: 2, parts: ['|', 'text'] });
  }),

  'reload while the continuation of an answer runs': async t => {
    const live = await t.begin([{ text: 'Where?', calls: [locate] }, t.heldText]);
    await t.give(live, 'client calls', () => live.answer('loc', here));
    await live.until(() => live.last.parts.filter(part => part.type === 'text').length === 2, 'the continuation arrives');
    const parts = ['|', 'text', 'get_location:output-available', '|', 'text'];
    const page = await resumed(t, live, { posts: 2, parts });
    equal(page.toolCalls, [], 'calls that a replay gave the page to run again');
  },

  'reload while a call waits and a server tool still runs': async t => {
    const live = t.open();
    live.send(script([{ calls: [locate, t.heldCall] }]));
    await live.until(() => live.shows('loc'), 'the call is shown');
    const page = await t.join(client => client.shows('loc'));
    await t.letGo();
    await page.settled();
    equal([page.posts, page.toolCalls.includes('loc')], [0, true], 'POSTs on load, and the page is given the open call');
    await t.complete(page, 'client calls', () => page.answer('loc', here));
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-available', 'hold:output-available!', '|', 'text'] });
  },

  'the run ends between the snapshot and the resume': unanswered(async t => {
    const live = t.open();
    live.send(script([t.heldText]));
    await live.until(() => live.telling, 'text arrives');
    const snapshot = await t.snapshot();
    equal(snapshot.live, true, 'the snapshot is of a live run');
    await t.letGo();
    await live.settled();
    const page = t.open({ messages: snapshot.messages });
    await t.act(page, () => page.resume(), 0);
    check(page.exchanges[0].status === 200, () => `the resume answered ${page.exchanges[0].status}`);
    await t.finish(page, { posts: 0, parts: ['|', 'text'] });
  }),

  'two pages resume at once': unanswered(async t => {
    const live = t.open();
    live.send(script([t.heldText]));
    await live.until(() => live.telling, 'text arrives');
    const pages = await Promise.all([t.join(), t.join()]);
    await t.letGo();
    await Promise.all(pages.map(page => t.finish(page, { posts: 0, parts: ['|', 'text'] })));
  }),

  'a closed socket does not stop the run': unanswered(async t => {
    const live = t.open();
    live.send(script([t.heldText]));
    await live.until(() => live.telling, 'text arrives');
    await live.disconnect();
    const page = await t.join();
    await t.letGo();
    await t.finish(page, { posts: 0, parts: ['|', 'text'] });
    equal(page.last.parts.at(-1).text, t.heldText.text, 'the whole text');
  }),
};

export const waitingForApproval = {
  'reload while an approval waits, then granted': async t => {
    const page = await t.load({ sameAs: await t.begin([{ text: 'May I?', calls: [email()] }]) });
    await t.complete(page, 'approvals', () => page.decide('mail', true));
    await t.finish(page, { posts: 1, parts: ['|', 'text', 'send_email:output-available!', '|', 'text'] });
  },

  'reload while an approval waits, then denied': async t => {
    const page = await t.load({ sameAs: await t.begin([{ calls: [email()] }]) });
    await t.complete(page, 'approvals', () => page.decide('mail', false, 'no'));
    await t.finish(page, { posts: 1, parts: ['|', 'send_email:output-denied', '|', 'text'] });
  },

  'reload after an approval was given elsewhere, then the client call answered': async t => {
    await t.begin([{ calls: [locate, email()] }]);
    const { pending } = await t.snapshot();
    const { approvalId } = pending.find(call => call.toolCallId === 'mail');
    const given = await t.server.answers(t.chatId, [{ toolCallId: 'mail', approvalId, approved: true }]);
    equal([given.status, given.body.outcomes[0].outcome], [200, 'stored'], 'the answer from elsewhere');
    const page = await t.load();
    equal(page.part('mail').state, 'approval-responded', 'the approval after a reload');
    await t.complete(page, 'both', () => page.answer('loc', here));
    await t.finish(page, { posts: 1, parts: ['|', 'get_location:output-available', 'send_email:output-available!', '|', 'text'] });
  },

  'reload while the continuation of an approval runs': async t => {
    const live = await t.begin([{ calls: [email('yes'), email('no')] }, t.heldText]);
    await t.give(live, 'approvals', () => Promise.all([live.decide('yes', true), live.decide('no', false)]));
    await live.until(() => live.last.parts.some(part => part.type === 'text'), 'the continuation arrives');
    await resumed(t, live, { posts: 2, parts: ['|', 'send_email:output-available!', 'send_email:output-denied', '|', 'text'] });
  },
};
