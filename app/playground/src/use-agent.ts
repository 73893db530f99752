// The stock useChat with what this page adds around it: the run's id, the truth after each turn, stop and retry.

import { useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { authHeaders, readSnapshot, type Snapshot, stopRun } from './api.ts';

export interface Progress {
  toolCallId: string;
  tool: string;
  status: string;
  text: string;
}

export interface AgentOptions {
  id: string;
  snapshot: Snapshot | null;
  unsent?: UIMessage | undefined;
  onAdopt: (snapshot: Snapshot | null, unsent?: UIMessage) => void;
  onSettled: () => void;
}

export function useAgent({ id, snapshot, unsent, onAdopt, onSettled }: AgentOptions) {
  const [runId, setRunId] = useState(snapshot?.run?.id);
  const [truth, setTruth] = useState<Snapshot | null>(snapshot);
  const [fault, setFault] = useState<unknown>();
  const [progress, setProgress] = useState<Record<string, Progress>>({});
  const [stopping, setStopping] = useState(false);

  const transport = useMemo(
    () =>
      new DefaultChatTransport({
        api: 'chat',
        headers: authHeaders,
        fetch: async (input, init) => {
          const response = await fetch(input, init);
          setRunId((known) => response.headers.get('x-run-id') ?? known);
          return response;
        },
      }),
    [],
  );
  const chat = useChat({
    id,
    transport,
    messages: snapshot?.messages ?? [],
    resume: snapshot?.live ?? false,
    sendAutomaticallyWhen: (now) =>
      lastAssistantMessageIsCompleteWithToolCalls(now) || lastAssistantMessageIsCompleteWithApprovalResponses(now),
    experimental_throttle: 40,
    onData: (part) => {
      if (part.type !== 'data-subagent') return;
      const news = part.data as Progress;
      setProgress((known) => ({ ...known, [news.toolCallId]: news }));
    },
  });
  const { status, messages, stop: disconnect, sendMessage, regenerate, clearError } = chat;
  const busy = status === 'submitted' || status === 'streaming';
  const now = useRef({ status, messages, truth });
  now.current = { status, messages, truth };

  // Leaving a chat is a disconnect; its run goes on.
  useEffect(() => () => void disconnect(), [disconnect]);

  const compare = useCallback(
    (read: Snapshot | null) => {
      if (now.current.status !== 'ready') return;
      if (read && isElsewhere(read, now.current.messages)) onAdopt(read);
      else setTruth(read);
    },
    [onAdopt],
  );

  const settled = useRef(false);
  useEffect(() => {
    // the first time, the snapshot was read a moment ago
    const first = !settled.current;
    settled.current = true;
    if (first || status !== 'ready') return;
    setStopping(false);
    onSettled();
    readSnapshot(id).then(compare, () => {});
  }, [status, id, compare, onSettled]);

  // Another tab may have gone on with this chat while this one was hidden.
  useEffect(() => {
    const look = () => {
      const { status: current, truth: known } = now.current;
      if (document.visibilityState !== 'visible' || current !== 'ready' || !known) return;
      readSnapshot(id).then(
        (read) => read && now.current.status === 'ready' && facts(read) !== facts(known) && onAdopt(read),
        () => {},
      );
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [id, onAdopt]);

  const begin = useCallback(() => {
    setRunId(undefined);
    setTruth(null);
    setFault(undefined);
    setProgress({});
  }, []);
  const send = useCallback(
    (message: { text: string } | UIMessage) => {
      begin();
      void sendMessage(message);
    },
    [begin, sendMessage],
  );
  const again = useCallback(() => {
    begin();
    void regenerate();
  }, [begin, regenerate]);

  const sent = useRef(false);
  useEffect(() => {
    if (!unsent || sent.current) return;
    sent.current = true;
    send(unsent);
  }, [unsent, send]);

  const stop = useCallback(async () => {
    setStopping(true);
    const streaming = now.current.status !== 'ready';
    try {
      await stopRun(id, runId);
      // a waiting run has no stream that would tell
      if (!streaming) onAdopt(await readSnapshot(id));
    } catch (error) {
      setStopping(false);
      setFault(error);
    }
  }, [id, runId, onAdopt]);

  /** Reads the chat anew; a user message that the server never saw is sent once more. */
  const retry = useCallback(async () => {
    try {
      const read = await readSnapshot(id);
      const mine = now.current.messages.findLast((message) => message.role === 'user');
      const known = !mine || read?.messages.some((message) => message.id === mine.id);
      clearError();
      onAdopt(read, known || read?.live ? undefined : mine);
    } catch (error) {
      setFault(error);
    }
  }, [id, clearError, onAdopt]);

  return {
    messages,
    status,
    busy,
    error: fault ?? chat.error,
    runId,
    truth,
    progress,
    stopping,
    send,
    again,
    stop,
    retry,
    addToolOutput: chat.addToolOutput,
    addToolApprovalResponse: chat.addToolApprovalResponse,
  };
}

/** What changes when a chat has gone on. */
function facts({ messages, run, pending }: Snapshot): string {
  return JSON.stringify([messages.length, messages.at(-1)?.id, run, pending.map(({ toolCallId }) => toolCallId)]);
}

/**
 * Whether the chat holds something that this page does not show: a run that another tab or the server itself began, other
 * messages, or open calls behind an empty step, which would keep the stock predicates from ever sending their answers.
 */
function isElsewhere(read: Snapshot, shown: UIMessage[]): boolean {
  const last = shown.at(-1);
  return read.live || read.messages.at(-1)?.id !== last?.id || (read.pending.length > 0 && last?.parts.at(-1)?.type === 'step-start');
}
