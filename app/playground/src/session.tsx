// One chat: reads its snapshot, then hands it to useChat. Whenever the truth must be shown anew, the conversation is
// mounted again with a fresh snapshot, exactly as a reload of the page would do.

import { useCallback, useEffect, useState } from 'react';
import { isTextUIPart, type UIMessage } from 'ai';
import { readSnapshot, type Snapshot } from './api.ts';
import { Conversation } from './conversation.tsx';
import { FailureCard } from './failure.tsx';

interface Shown {
  version: number;
  snapshot: Snapshot | null;
  /** A user message that never reached the server: it is sent once more. */
  unsent?: UIMessage;
}

interface Props {
  id: string;
  fresh: boolean;
  onBegun: (text: string) => void;
  onSettled: () => void;
}

export function Session({ id, fresh, onBegun, onSettled }: Props) {
  const [shown, setShown] = useState<Shown | null>(fresh ? { version: 0, snapshot: null } : null);
  const [fault, setFault] = useState<unknown>();
  const [draft, setDraft] = useState('');

  const adopt = useCallback((snapshot: Snapshot | null, unsent?: UIMessage) => {
    setShown((before) => ({ version: (before?.version ?? 0) + 1, snapshot, ...(unsent ? { unsent } : {}) }));
  }, []);
  const load = useCallback(async () => {
    try {
      const read = await readSnapshot(id);
      adopt(read);
      setFault(undefined);
      // a chat that was begun in another browser has no title here yet
      const said = read?.messages[0]?.parts.find(isTextUIPart)?.text;
      if (said) onBegun(said);
    } catch (error) {
      setFault(error);
    }
  }, [id, adopt, onBegun]);
  useEffect(() => {
    if (!fresh) void load();
  }, [fresh, load]);

  if (shown) {
    return (
      <Conversation
        key={shown.version}
        id={id}
        snapshot={shown.snapshot}
        unsent={shown.unsent}
        draft={draft}
        onDraft={setDraft}
        onAdopt={adopt}
        onBegun={onBegun}
        onSettled={onSettled}
      />
    );
  }
  return (
    <div className="scroll">
      <div className="column">
        {fault === undefined ? <p className="quiet loading">Reading the chat…</p> : <FailureCard error={fault} onRetry={load} />}
      </div>
    </div>
  );
}
