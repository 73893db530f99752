// The owner's chats, as the server lists them, and a title for each: its first message, which this browser remembers.

import { useCallback, useEffect, useState } from 'react';
import { type ChatEntry, deleteChat, listChats } from './api.ts';

const TITLES = 'agent-server.titles';
const REMEMBERED = 200;

function storedTitles(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem(TITLES) ?? '{}') as Record<string, string>;
  } catch {
    return {};
  }
}

function storeTitles(titles: Record<string, string>): void {
  try {
    localStorage.setItem(TITLES, JSON.stringify(Object.fromEntries(Object.entries(titles).slice(-REMEMBERED))));
  } catch {
    // no storage, no titles: the ids are shown
  }
}

export interface Chats {
  entries: ChatEntry[];
  hasMore: boolean;
  titleOf: (id: string, fresh?: boolean) => string;
  refresh: () => void;
  more: () => void;
  begin: (id: string, text: string) => void;
  remove: (id: string) => Promise<void>;
}

export function useChats(): Chats {
  const [entries, setEntries] = useState<ChatEntry[]>([]);
  const [cursor, setCursor] = useState<string>();
  const [titles, setTitles] = useState(storedTitles);

  // A list that cannot be read is left as it was: the open chat tells what is wrong with the server.
  const refresh = useCallback(() => {
    listChats()
      .then((page) => {
        setEntries(page.chats);
        setCursor(page.nextCursor);
      })
      .catch(() => {});
  }, []);
  useEffect(refresh, [refresh]);

  const more = useCallback(() => {
    listChats(cursor)
      .then((page) => {
        setEntries((known) => [...known, ...page.chats.filter((chat) => !known.some(({ id }) => id === chat.id))]);
        setCursor(page.nextCursor);
      })
      .catch(() => {});
  }, [cursor]);

  const begin = useCallback((id: string, text: string) => {
    setTitles((known) => {
      if (known[id]) return known;
      const titled = { ...known, [id]: text.length > 80 ? `${text.slice(0, 79)}…` : text };
      storeTitles(titled);
      return titled;
    });
    setEntries((known) =>
      known.some((chat) => chat.id === id) ? known : [{ id, agent: '', updatedAt: new Date().toISOString() }, ...known],
    );
  }, []);

  const remove = useCallback(async (id: string) => {
    await deleteChat(id);
    setEntries((known) => known.filter((chat) => chat.id !== id));
  }, []);

  const titleOf = (id: string, fresh = false): string =>
    (Object.hasOwn(titles, id) ? titles[id] : undefined) ?? (fresh ? 'New chat' : `Chat ${id.slice(0, 12)}`);
  return { entries, hasMore: cursor !== undefined, titleOf, refresh, more, begin, remove };
}
