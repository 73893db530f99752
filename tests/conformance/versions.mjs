// The pinned clients. Each release of `ai` is installed under an alias beside the `@ai-sdk/react` that belongs to it.

import { mountPage } from './page.mjs';

export const VERSIONS = ['5.0.277', '6.0.0', '6.0.49', '6.0.91', '6.0.230', '6.0.281', '6.0.325', '7.0.0', '7.0.173'];
export const SOME_VERSIONS = ['6.0.0', '6.0.281', '7.0.173']; // the oldest with approvals, one in the middle, the newest
export const PREDICATES = ['tool-calls', 'approvals', 'or'];
export const STATES = ['react', 'plain'];
export const PAGE_STATES = ['hook', 'strict']; // the hook itself, rendered
export const HOOK_VERSIONS = ['6.0.281', '7.0.173'];

const alias = version => version.replaceAll('.', '-');

const loaded = new Map();

/** The release's two packages, imported once: `{ version, ai, react }`. */
export async function loadVersion(version) {
  if (!loaded.has(version)) {
    const both = Promise.all([import(`ai-${alias(version)}`), import(`react-${alias(version)}`)]);
    loaded.set(version, both.then(([ai, react]) => ({ version, ai, react })));
  }
  return loaded.get(version);
}

/** ai 5 knows no approvals: neither their chunks, nor their part states, nor their predicate. */
export const hasApprovals = version => !version.startsWith('5.');

/** Early releases call `onFinish` even for a resume that was answered 204. */
export const finishesOnEmptyResume = version => ['5.0.277', '6.0.0', '6.0.49'].includes(version);

/** The stock `sendAutomaticallyWhen` of the release; `or` is what the README's page uses. */
export function predicateOf(ai, name) {
  const tools = ai.lastAssistantMessageIsCompleteWithToolCalls;
  const approvals = ai.lastAssistantMessageIsCompleteWithApprovalResponses;
  switch (name) {
    case 'tool-calls':
      return tools;
    case 'approvals':
      return approvals;
    case 'or':
      return approvals ? options => tools(options) || approvals(options) : tools;
    case 'always':
      return () => true;
    default:
      throw new Error(`unknown predicate: ${name}`);
  }
}

/**
 * The state of a chat that keeps its messages by reference, as the Vue and Svelte bindings do. React's copies a message on
 * each write; the two differ exactly where a chunk changes a message without writing it.
 */
export class PlainState {
  status = 'ready';
  error = undefined;

  constructor(messages) {
    this.messages = messages;
  }

  pushMessage = message => {
    this.messages = this.messages.concat(message);
  };

  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };

  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, message);
  };

  snapshot = value => structuredClone(value);
}

/** A real chat of the release in one of the states; `options` are those of `useChat`. */
export function createChat({ ai, react }, state, options) {
  if (PAGE_STATES.includes(state)) return mountPage(react.useChat, options, { strict: state === 'strict' });
  const { messages, resume, ...rest } = options;
  const chat = state === 'react' ? new react.Chat({ ...rest, messages }) : plainChat(ai, messages, rest);
  if (resume) chat.resumeStream();
  return chat;
}

function plainChat({ AbstractChat }, messages, options) {
  class PlainChat extends AbstractChat {}
  return new PlainChat({ ...options, state: new PlainState(messages) });
}
