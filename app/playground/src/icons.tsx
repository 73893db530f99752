// Small line icons, drawn here so that the page needs nothing from elsewhere. Decorative: text beside them says it.

const PATHS = {
  menu: 'M4 7h16M4 12h16M4 17h10',
  plus: 'M12 5v14M5 12h14',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7.5 7.5h9v9h-9z',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  cross: 'M7 7l10 10M17 7L7 17',
  warning: 'M12 4l9 16H3zM12 10v4.5M12 17.2v.1',
  again: 'M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4',
  shield: 'M12 4l7 2.5v5c0 4-3 7-7 8.5-4-1.5-7-4.5-7-8.5v-5z',
  hand: 'M12 8v4.5l3 2M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
