// Makes the site's pages, src/content/docs, of the repository's Markdown, and its navigation,
// navigation.json, of the index in docs/README.md. The Markdown stays as the repository shows it.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, posix } from "node:path";
import { base, repository, revision, source as root } from "./site.mjs";

const out = join(import.meta.dirname, "src/content/docs");
const pictures = "docs/images";

// Pages by the path of their source. A decision is not in the search: how-tos come first there,
// and each decision is linked from the page that it is about.
const landing = "website/landing.md"; // in place of README.md, which is the repository's own page
const pages = new Map([
  [landing, { slug: "index" }],
  ["docs/README.md", { slug: "documentation" }],
  ["CONTRIBUTING.md", { slug: "contributing" }],
  ["SECURITY.md", { slug: "security" }],
  ["CHANGELOG.md", { slug: "changelog" }],
  ["GOVERNANCE.md", { slug: "governance" }],
  ["SUPPORT.md", { slug: "support" }],
  ["deploy/README.md", { slug: "deploy" }],
]);
for (const [directory, prefix] of [["docs", ""], ["docs/adr", "adr/"]]) {
  for (const name of readdirSync(join(root, directory)).filter((n) => n.endsWith(".md"))) {
    const path = posix.join(directory, name);
    const slug = name === "README.md" ? "adr" : prefix + name.replace(/\.md$/, "");
    if (!pages.has(path)) pages.set(path, { slug, decision: prefix !== "" });
  }
}

// address returns where a link of the page at path leads on the site: to a page or a picture, or else
// to the file in the repository. What names a scheme, or a place on the same page, stays as it is.
function address(path, link) {
  if (/^[a-z]+:|^#/.test(link)) return link;
  const [file, anchor] = link.split("#");
  const named = normalize(posix.join(dirname(path), file)).replace(/\/$/, "");
  const target = named === "README.md" ? landing : named;
  const fragment = anchor ? "#" + anchor : "";
  const page = pages.get(target) ?? pages.get(posix.join(target, "README.md"));
  if (page) return base + (page.slug === "index" ? "" : page.slug + "/") + fragment;
  if (dirname(target) === pictures) return `${base}images/${posix.basename(target)}`;
  if (!existsSync(join(root, target))) throw new Error(`${path}: ${link} leads nowhere`);
  return `${repository}/${statSync(join(root, target)).isDirectory() ? "tree" : "blob"}/${revision}/${target}${fragment}`;
}

// outsideCode applies change to the text that is neither a fenced block nor code in a line.
const outsideCode = (text, change) =>
  text.split(/(^```[\s\S]*?^```$|`(?:[^`\n]|\n(?!\n))+`)/m).map((part, i) => (i % 2 ? part : change(part))).join("");

function write(path, { slug, decision }) {
  const text = readFileSync(join(root, path), "utf8");
  const [, own, title, body] = text.match(/^(?:---\n([\s\S]*?)\n---|# (.*))\n([\s\S]*)$/);
  const linked = outsideCode(body, (text) => text
    .replace(/\]\(([^)\s]+)\)/g, (_, link) => `](${address(path, link)})`)
    .replace(/<!-- not run: ([\s\S]*?) -->/g, "*Not run by a test: $1.*")); // package test/docs/commands
  const front = own ? [own] : [
    `title: ${JSON.stringify(title.replace(/`/g, ""))}`,
    `editUrl: ${repository}/edit/main/${path}`,
    ...(decision ? ["pagefind: false"] : []),
    ...(path === "docs/programs.md" ? ["tableOfContents: false"] : []), // its tables need the room
  ];
  const file = join(out, slug + ".md");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `---\n${front.join("\n")}\n---\n${linked}`);
}

// navigation returns the groups of the index and, of each of its rows, the first page.
function navigation() {
  const groups = [];
  for (const line of readFileSync(join(root, "docs/README.md"), "utf8").split("\n")) {
    const heading = line.match(/^## (.*)$/);
    if (heading) groups.push({ label: heading[1], items: [] });
    if (!line.startsWith("|")) continue;
    const link = line.match(/\]\(([^)#]+)[^)]*\)/);
    const page = link && pages.get(normalize(posix.join("docs", link[1])));
    if (page) groups.at(-1).items.push({ slug: page.slug });
  }
  return groups;
}

rmSync(out, { recursive: true, force: true });
for (const [path, page] of pages) write(path, page);
cpSync(join(root, pictures), join(import.meta.dirname, "public/images"), { recursive: true });
writeFileSync(join(import.meta.dirname, "navigation.json"), JSON.stringify(navigation(), null, 1));
console.log(`${pages.size} pages`);
