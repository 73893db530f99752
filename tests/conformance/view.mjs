// Views of a conversation: what a client shows, what the snapshot holds, and when the two are the same.

const UNSTORED_DATA = new Set(['data-resume-rejected', 'data-tool-output-elsewhere']);

export const isTool = part => part.type.startsWith('tool-') || part.type === 'dynamic-tool';
export const toolName = part => part.toolName ?? part.type.slice('tool-'.length);

/** Compact spelling of a message's parts: `|` begins a step, `!` is the providerExecuted flag. */
export function outline(message) {
  return message.parts.map(part => {
    if (part.type === 'step-start') return '|';
    if (isTool(part)) return `${toolName(part)}:${part.state}${part.providerExecuted ? '!' : ''}`;
    return part.type;
  });
}

/** The same without the boundaries that the server never stores. */
export const storedOutline = message => outline({ parts: withoutUnstored(message.parts) });

// An empty step, or one that holds only the data of a "nothing continues here" answer, is never stored.
function withoutUnstored(parts) {
  const kept = parts.filter(part => !UNSTORED_DATA.has(part.type));
  return kept.filter((part, index) => part.type !== 'step-start' || (kept[index + 1] && kept[index + 1].type !== 'step-start'));
}

/** Empty steps of a message, which a snapshot must not have. */
export const hasUnstored = message => withoutUnstored(message.parts).length !== message.parts.length;

/**
 * A conversation in the form in which live and reloaded must be equal. `decided` holds the approval ids that this view
 * answered itself: only for those does a client know what was decided, and why.
 */
export function comparable(messages, decided) {
  const plain = JSON.parse(JSON.stringify(messages)); // drops the keys that are undefined
  return plain
    .map(message => (message.role === 'assistant' ? comparableAssistant(message, decided) : message))
    .filter(message => message.role !== 'assistant' || message.parts.length > 0);
}

function comparableAssistant(message, decided) {
  const parts = withoutUnstored(message.parts).map(part => {
    const copy = { ...part };
    if (copy.providerExecuted === false) delete copy.providerExecuted;
    if (copy.type === 'reasoning') delete copy.id; // a stream's id, which only later releases keep in the part
    if (copy.approval && !decided.has(copy.approval.id)) {
      // A replay of a settled approval does not ask for it again, so such a view has no approval at all.
      if (copy.state.startsWith('approval-')) copy.approval = { id: copy.approval.id };
      else delete copy.approval;
    }
    return copy;
  });
  return { ...message, parts };
}

/** Where two lists of parts differ only by steps that one of them did not store, the steps are taken out of both. */
export const withoutSteps = messages =>
  messages.map(message => ({ ...message, parts: message.parts.filter(part => part.type !== 'step-start') }));

/** The results that the scripted model was given in this turn, from its closing `done […]` text. */
export function reportedResults(message) {
  const text = message.parts.filter(part => part.type === 'text').at(-1)?.text ?? '';
  return text.startsWith('done ') ? JSON.parse(text.slice('done '.length)) : undefined;
}
