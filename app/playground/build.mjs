// Builds static/ from src/. The result is committed: whoever runs the server needs no Node.
//
// static/sources.sha256 names the sources that the bundle was built from; a test compares them. A file is fetched
// with the hash in its address, so that browsers may keep it for ever.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const src = join(here, 'src');
const out = join(here, 'static');

/** SHA-256 over the names and contents of all sources, in the order of their names. */
async function sourcesHash() {
  const names = [...(await readdir(src)).map((name) => `src/${name}`), 'build.mjs', 'package.json', 'tsconfig.json'].sort();
  const hash = createHash('sha256');
  for (const name of names) {
    const content = await readFile(join(here, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

/** zod brings 50 languages of error messages along (180 kB), and this page shows none of them. */
const englishOnly = {
  name: 'english-only',
  setup(builder) {
    builder.onResolve({ filter: /locales\/index\.js$/ }, () => ({ path: 'none', namespace: 'locales' }));
    builder.onLoad({ filter: /.*/, namespace: 'locales' }, () => ({ contents: 'export {};' }));
  },
};

/** The licence texts of every package that is part of the bundle. */
async function licences(inputs) {
  const packages = new Set(
    Object.keys(inputs).map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[0]).filter(Boolean),
  );
  const texts = [];
  for (const folder of [...packages].sort()) {
    const root = join(here, folder);
    const { name, version, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    const file = (await readdir(root)).find((entry) => /^licen[sc]e/i.test(entry));
    const text = file === undefined ? '' : `\n${(await readFile(join(root, file), 'utf8')).trim()}\n`;
    texts.push(`${name} ${version} (${license})\n${text}`);
  }
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

const hash = await sourcesHash();
if (existsSync(out)) await rm(out, { recursive: true });
await mkdir(out);
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { page: 'src/main.tsx' },
  outdir: 'static',
  bundle: true,
  minify: true,
  metafile: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  charset: 'utf8',
  define: { 'process.env.NODE_ENV': '"production"' },
  legalComments: 'eof',
  plugins: [englishOnly],
  logLevel: 'info',
});
const page = await readFile(join(src, 'index.html'), 'utf8');
await writeFile(join(out, 'index.html'), page.replaceAll('{version}', hash.slice(0, 16)));
await copyFile(join(src, 'icon.svg'), join(out, 'icon.svg'));
await writeFile(join(out, 'LICENCES.txt'), await licences(metafile.inputs));
await writeFile(join(out, 'sources.sha256'), `${hash}\n`);
