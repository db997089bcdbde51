// What differs between builds of the site, from the environment: VERSION is a release's tag, whose
// pages are below /TAG/ and link to its files, or empty for main; SOURCE is where its Markdown is, this
// repository if empty; VERSIONS lists the tags that are built; BASE is where the site is on its host.
import { resolve } from "node:path";

export const repository = "https://github.com/servingcert/servingcert";
export const version = process.env.VERSION ?? "";
export const versions = (process.env.VERSIONS ?? "").split(/\s+/).filter(Boolean);
export const revision = version || "main";
export const source = resolve(process.env.SOURCE || `${import.meta.dirname}/..`);
// With a slash at both ends.
export const root = process.env.BASE || "/";
export const base = version ? `${root}${version}/` : root;
