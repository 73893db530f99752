// Why a "nothing continues here" answer repeats its `start`: the bare step is sent once only by a chat whose state keeps
// messages by reference. React's copies them, and no chunk of the bare step writes. Run against a server of a few lines.

import { createServer } from 'node:http';

import { check, equal } from '../failure.mjs';

const ID = 'answer';
const start = { type: 'start', messageId: ID };
const [open, close, finish] = ['start-step', 'finish-step', 'finish'].map(type => ({ type }));

const ANSWERS = {
  bare: [start, open, close, finish],
  repeated: [start, open, start, close, finish],
};

const call = { type: 'tool-input-available', toolCallId: 'loc', toolName: 'get_location', input: {} };
const request = { type: 'tool-approval-request', toolCallId: 'loc', approvalId: 'approval' };

let listening;

/** `/bare` and `/repeated` answer alike but for that one chunk; `/…/approval` has an approval where the others have a call. */
function origin() {
  listening ??= new Promise(resolve => {
    const server = createServer(async (incoming, outgoing) => {
      const body = JSON.parse(Buffer.concat(await incoming.toArray()));
      const [, kind, approval] = incoming.url.split('/');
      const waits = [start, open, call, ...(approval ? [request] : []), close, finish];
      outgoing.setHeader('content-type', 'text/event-stream');
      for (const chunk of body.messages.at(-1).role === 'user' ? waits : ANSWERS[kind]) outgoing.write(`data: ${JSON.stringify(chunk)}\n\n`);
      outgoing.end('data: [DONE]\n\n');
    });
    server.unref();
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
  return listening;
}

const row = kind => async t => {
  const approval = t.predicate === 'approvals';
  const client = t.open({ api: `${await origin()}/${kind}${approval ? '/approval' : ''}` });
  client.send('hello');
  await client.settled();
  if (approval) await client.decide('loc', true);
  else await client.answer('loc', 1);
  await client.settled(3000);
  if (kind === 'bare' && t.state !== 'plain') check(client.looped, `the bare step no longer loops: ${client.posts} POSTs`);
  else equal([client.looped, client.posts, client.status], [false, 2, 'ready'], 'loops, POSTs and status');
};

export default {
  'counter-example: the bare step loops where the state copies': row('bare'),
  'counter-example: the repeated start is sent once everywhere': row('repeated'),
};
