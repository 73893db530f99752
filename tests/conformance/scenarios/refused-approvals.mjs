// Approval ids that were broken on their way, alone and beside an answer that was stored.

import { script } from '../cell.mjs';
import { equal } from '../failure.mjs';
import { email } from './approvals.mjs';

const locate = { tool: 'get_location', input: {}, id: 'loc' };
const here = { lat: 38.7 };

/** A page whose approval part carries another id than the server gave it. */
async function pageWithApprovalId(t, approvalId) {
  const { messages } = await t.snapshot();
  messages.at(-1).parts.find(part => part.approval).approval.id = approvalId;
  return t.open({ messages });
}

const notStored = { code: 'state_not_resumable', cause: 'answer_not_stored', toolCallIds: ['mail'] };

/** The page is loaded again: what was stored is there, and what was not can be answered. */
async function healedByReload(t, turns = 1) {
  const page = await t.load();
  equal([page.part('loc').state, page.part('mail').state], ['output-available', 'approval-requested'], 'after the reload');
  await t.complete(page, 'both', () => page.decide('mail', true));
  await t.finish(page, { posts: 1, turns, parts: ['|', 'get_location:output-available', 'send_email:output-available!', '|', 'text'] });
}

export default {
  'case C: a malformed approval id beside a stored answer': async t => {
    await t.begin([{ calls: [locate, email()] }]);
    const client = await pageWithApprovalId(t, 'not-an-id');
    await t.act(client, () => client.answer('loc', here), 0);
    await t.complete(client, 'both', () => client.decide('mail', true));
    t.refusal(client, 409, notStored);
    await t.finish(client, { posts: 1, status: 'error', compare: false });
    await healedByReload(t);
  },

  'case C: an approval of another run beside a stored answer': async t => {
    const first = await t.begin([{ calls: [email('old')] }]);
    const oldId = first.part('old').approval.id;
    await t.act(first, () => first.send(script([{ calls: [locate, email()] }])), 1);
    const client = await pageWithApprovalId(t, oldId);
    await t.act(client, () => client.answer('loc', here), 0);
    await t.complete(client, 'both', () => client.decide('mail', true));
    t.refusal(client, 409, notStored);
    await t.finish(client, { posts: 1, turns: 2, status: 'error', compare: false });
    await healedByReload(t, 2);
  },

  '400: a malformed approval id alone': async t => {
    await t.begin([{ calls: [email()] }]);
    const client = await pageWithApprovalId(t, 'not-an-id');
    await t.complete(client, 'approvals', () => client.decide('mail', true));
    t.refusal(client, 400, { code: 'validation_error' });
    const { status } = await t.finish(client, { posts: 1, status: 'error', compare: false });
    equal(status, 'suspended', 'status of the run');
  },
};
