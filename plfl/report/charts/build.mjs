// Bundles what the report uses of Observable Plot into plot.js, with the licences of all that is in
// it, and writes its checksum: `npm ci && npm run build`.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const options = {
  entryPoints: ["plot.entry.js"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plot",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
};
const { metafile } = await build({ ...options, metafile: true });
const [{ inputs }] = Object.values(metafile.outputs);
const packages = new Set(
  Object.entries(inputs)
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
    .filter(Boolean),
);
// Most packages have the same licence and differ in the lines on copyright only.
const texts = new Map();
for (const name of [...packages].sort()) {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  const lines = readFileSync(`node_modules/${name}/LICENSE`, "utf8").replaceAll("\r", "").split("\n");
  const isNotice = (line) => /^\s*copyright \(?c?\)?.*\d{4}/i.test(line);
  const text = lines.filter((line) => !isNotice(line)).join("\n").replace(/\n{3,}/g, "\n\n").trim();
  const notices = lines.filter(isNotice).map((line) => line.trim());
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}. ${notices.join(" ")}`.trim()]);
}
const licences = [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}`).join("\n\n---\n\n");
const banner = { js: `/*!\n${licences.replaceAll("*/", "* /")}\n*/` };
const [{ contents }] = (await build({ ...options, banner })).outputFiles;
writeFileSync("plot.js", contents);
writeFileSync("plot.js.sha256", `${createHash("sha256").update(contents).digest("hex")}  plot.js\n`);
console.log(`plot.js: ${contents.length} bytes, ${packages.size} packages`);
