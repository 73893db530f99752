// The list of chats. On a narrow screen it is a drawer.

import { useState } from 'react';
import type { ChatEntry } from './api.ts';
import type { Chats } from './chats.ts';
import { Icon } from './icons.tsx';

interface Props {
  chats: Chats;
  openedId: string;
  onOpen: (id: string) => void;
  onNew: () => void;
  onDelete: (id: string) => Promise<void>;
}

export function Sidebar({ chats, openedId, onOpen, onNew, onDelete }: Props) {
  return (
    <nav id="chats" className="sidebar" aria-label="Chats">
      <p className="brand">
        <img src="playground/icon.svg" alt="" width="24" height="24" />
        agent-server
      </p>
      <button type="button" className="button new" onClick={onNew}>
        <Icon name="plus" />
        New chat
      </button>
      <ul>
        {chats.entries.map((chat) => (
          <Entry
            key={chat.id}
            chat={chat}
            title={chats.titleOf(chat.id)}
            opened={chat.id === openedId}
            onOpen={onOpen}
            onDelete={onDelete}
          />
        ))}
      </ul>
      {chats.entries.length === 0 && <p className="quiet empty">Your chats will be listed here.</p>}
      {chats.hasMore && (
        <button type="button" className="button plain" onClick={chats.more}>
          Older chats
        </button>
      )}
    </nav>
  );
}

interface EntryProps {
  chat: ChatEntry;
  title: string;
  opened: boolean;
  onOpen: (id: string) => void;
  onDelete: (id: string) => Promise<void>;
}

function Entry({ chat, title, opened, onOpen, onDelete }: EntryProps) {
  // deleting takes two clicks: the first one asks
  const [asked, setAsked] = useState(false);
  return (
    <li className={opened ? 'entry opened' : 'entry'}>
      <button type="button" className="title" aria-current={opened ? 'page' : undefined} onClick={() => onOpen(chat.id)}>
        <span>{title}</span>
        <small>{ago(chat.updatedAt)}</small>
      </button>
      <button
        type="button"
        className={asked ? 'icon-button danger' : 'icon-button'}
        aria-label={asked ? `Really delete: ${title}` : `Delete: ${title}`}
        onBlur={() => setAsked(false)}
        onClick={() => (asked ? void onDelete(chat.id).catch(() => setAsked(false)) : setAsked(true))}
      >
        {asked ? 'Delete?' : <Icon name="trash" />}
      </button>
    </li>
  );
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
];

function ago(time: string): string {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return new Intl.RelativeTimeFormat('en', { style: 'short' }).format(-Math.floor(seconds / size), unit);
  }
  return 'just now';
}
