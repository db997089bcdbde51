import { readFileSync } from "node:fs";
import starlight from "@astrojs/starlight";
import { defineConfig } from "astro/config";
import linksValidator from "starlight-links-validator";
import { base, repository, root, version, versions } from "./site.mjs";

const navigation = JSON.parse(readFileSync(new URL("./navigation.json", import.meta.url), "utf8"));

const tables = readFileSync(new URL("./src/tables.js", import.meta.url), "utf8");

export default defineConfig({
  base,
  outDir: version ? `dist/${version}` : "dist",
  trailingSlash: "always",
  integrations: [
    starlight({
      title: version ? `servingcert ${version}` : "servingcert",
      description: "A serving certificate for every workload of a Kubernetes cluster",
      social: [{ icon: "github", label: "Repository", href: repository }],
      head: [{ tag: "script", attrs: { type: "module" }, content: tables }],
      customCss: ["./site.css"],
      // Starlight's own time of the last change is that of the copied file.
      lastUpdated: false,
      // programs.md has addresses on localhost, as values of flags.
      plugins: [linksValidator({ errorOnLocalLinks: false })],
      sidebar: [
        { label: "Which page answers my question?", slug: "documentation" },
        ...navigation,
        {
          label: "Versions",
          collapsed: true,
          items: [{ label: "main", link: root }, ...versions.map((v) => ({ label: v, link: `${root}${v}/` }))].map(
            // Another build's pages: no link of this one.
            ({ label, link }) => ({ label, link, attrs: { rel: "alternate" } }),
          ),
        },
      ],
    }),
  ],
});
