// The shell: which chat is open (its id is in the address, so a reload comes back to it), and the list beside it.

import { useCallback, useEffect, useState } from 'react';
import { generateId } from 'ai';
import { Session } from './session.tsx';
import { Sidebar } from './sidebar.tsx';
import { useChats } from './chats.ts';
import { Icon } from './icons.tsx';

interface Opened {
  id: string;
  /** Nothing was sent yet: there is nothing to read. */
  fresh: boolean;
}

function fromAddress(): Opened {
  const id = new URLSearchParams(location.search).get('chat');
  return id ? { id, fresh: false } : { id: generateId(), fresh: true };
}

const addressOf = (id: string): string => `?chat=${encodeURIComponent(id)}`;

export function App() {
  const [opened, setOpened] = useState(fromAddress);
  const [drawer, setDrawer] = useState(false);
  const chats = useChats();
  const { refresh, begin } = chats;

  useEffect(() => {
    const onBack = () => setOpened(fromAddress());
    addEventListener('popstate', onBack);
    return () => removeEventListener('popstate', onBack);
  }, []);

  useEffect(() => {
    if (!drawer) return;
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && setDrawer(false);
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [drawer]);

  const open = (id: string) => {
    history.pushState(null, '', addressOf(id));
    setOpened({ id, fresh: false });
    setDrawer(false);
  };
  const openNew = () => {
    history.pushState(null, '', location.pathname);
    setOpened({ id: generateId(), fresh: true });
    setDrawer(false);
  };
  const remove = async (id: string) => {
    await chats.remove(id);
    if (id === opened.id) openNew();
  };
  const onBegun = useCallback(
    (text: string) => {
      history.replaceState(null, '', addressOf(opened.id));
      begin(opened.id, text);
    },
    [opened.id, begin],
  );

  return (
    <div className={drawer ? 'shell drawer-open' : 'shell'}>
      <Sidebar chats={chats} openedId={opened.id} onOpen={open} onNew={openNew} onDelete={remove} />
      <button type="button" className="scrim" aria-label="Close the list of chats" onClick={() => setDrawer(false)} />
      <main>
        <header className="bar">
          <button
            type="button"
            className="icon-button only-narrow"
            aria-label="Chats"
            aria-expanded={drawer}
            aria-controls="chats"
            onClick={() => setDrawer(!drawer)}
          >
            <Icon name="menu" />
          </button>
          <h1>{chats.titleOf(opened.id, opened.fresh)}</h1>
          <a className="quiet" href="docs">
            API
          </a>
          <button type="button" className="icon-button only-narrow" aria-label="New chat" onClick={openNew}>
            <Icon name="plus" />
          </button>
        </header>
        <Session key={opened.id} id={opened.id} fresh={opened.fresh} onBegun={onBegun} onSettled={refresh} />
      </main>
    </div>
  );
}
