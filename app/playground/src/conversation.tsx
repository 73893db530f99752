// The open chat: its messages, what it waits for, the composer and the line of facts below it.

import { type ReactNode, useCallback, useEffect, useRef } from 'react';
import type { UIMessage } from 'ai';
import type { Snapshot } from './api.ts';
import { Activity } from './activity.tsx';
import { Composer } from './composer.tsx';
import { Ending } from './ending.tsx';
import { Facts, statusWord } from './facts.tsx';
import { FailureCard } from './failure.tsx';
import { Message } from './message.tsx';
import { Chips, Welcome } from './prompts.tsx';
import { openCall } from './tool-part.tsx';
import { useAgent } from './use-agent.ts';

interface Props {
  id: string;
  snapshot: Snapshot | null;
  unsent?: UIMessage | undefined;
  draft: string;
  onDraft: (text: string) => void;
  onAdopt: (snapshot: Snapshot | null, unsent?: UIMessage) => void;
  onBegun: (text: string) => void;
  onSettled: () => void;
}

export function Conversation({ id, snapshot, unsent, draft, onDraft, onAdopt, onBegun, onSettled }: Props) {
  const agent = useAgent({ id, snapshot, unsent, onAdopt, onSettled });
  const { messages, busy, send: sendMessage, addToolOutput, addToolApprovalResponse } = agent;
  const composer = useRef<HTMLTextAreaElement>(null);
  const last = messages.at(-1);
  const open = last?.role === 'assistant' ? openCall(last, busy) : undefined;

  const send = (text: string) => {
    onBegun(text);
    sendMessage({ text });
  };
  // The button that was pressed is gone: the focus moves on to where one writes. (A touch screen would bring up its keyboard.)
  const moveOn = () => matchMedia('(hover: hover)').matches && composer.current?.focus();
  const answer = useCallback<typeof addToolOutput>(
    async (output) => {
      moveOn();
      await addToolOutput(output);
    },
    [addToolOutput],
  );
  const decide = useCallback<typeof addToolApprovalResponse>(
    async (decision) => {
      moveOn();
      await addToolApprovalResponse(decision);
    },
    [addToolApprovalResponse],
  );

  const word = statusWord(agent);
  return (
    <>
      <Scroll count={messages.length}>
        {messages.length === 0 && agent.error === undefined && <Welcome onPick={send} />}
        <ol className="messages" aria-label="Conversation" aria-busy={busy}>
          {messages.map((message) => (
            <Message
              key={message.id}
              message={message}
              live={busy && message === last}
              progress={message === last ? agent.progress : undefined}
              onAnswer={answer}
              onDecide={decide}
            />
          ))}
        </ol>
        <Activity busy={busy} waiting={open !== undefined} last={last} progress={agent.progress} />
        {agent.error !== undefined && <FailureCard error={agent.error} onRetry={agent.retry} />}
        {agent.error === undefined && !busy && !open && <Ending last={last} run={agent.truth?.run} onAgain={agent.again} />}
      </Scroll>
      <div className="dock">
        <div className="column">
          {messages.length > 0 && !busy && !open && <Chips onPick={send} />}
          <Composer
            ref={composer}
            draft={draft}
            onDraft={onDraft}
            busy={busy}
            stoppable={busy || open !== undefined}
            stopping={agent.stopping}
            onSend={send}
            onStop={agent.stop}
          />
          <Facts id={id} runId={agent.runId} word={word} />
        </div>
      </div>
      {/* one short sentence for a screen reader, in place of a text that grows word by word */}
      <p className="unseen" role="status">
        {open ? `The agent waits for you: ${open}` : busy ? 'The agent is answering.' : messages.length > 0 ? `Status: ${word}` : ''}
      </p>
    </>
  );
}

/** Follows the end of the text while the reader is there, and leaves alone whoever has scrolled up. */
function Scroll({ count, children }: { count: number; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (count && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  // a message of one's own is always shown
  useEffect(() => {
    if (count && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count]);
  return (
    <div
      className="scroll"
      ref={box}
      onScroll={({ currentTarget: at }) => {
        atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 60;
      }}
    >
      <div className="column">{children}</div>
    </div>
  );
}
