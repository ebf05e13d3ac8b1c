// Builds the page: `node build.mjs [FOLDER]` writes index.html, app.js and app.css, into the Python package if
// no folder is given. `node build.mjs --test` runs the unit tests, which need no browser.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const shared = { bundle: true, target: "es2022", logLevel: "warning", absWorkingDir: here };

if (process.argv[2] === "--test") {
  const folder = mkdtempSync(join(here, ".tests-"));
  try {
    const files = readdirSync(join(here, "tests")).filter((name) => name.endsWith(".test.ts"));
    await build({
      ...shared,
      entryPoints: files.map((name) => join(here, "tests", name)),
      outdir: folder,
      outExtension: { ".js": ".mjs" },
      format: "esm",
      platform: "node",
    });
    const built = files.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")));
    process.exitCode = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
} else {
  const out = resolve(process.argv[2] ?? join(here, "../src/kuberth/page"));
  // The licences of what is bundled ask to go along with it.
  const licences = ["preact", "js-yaml"].map(
    (name) => `${name}:\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim()}`,
  );
  mkdirSync(out, { recursive: true });
  await build({
    ...shared,
    entryPoints: { app: join(here, "src/main.tsx") },
    outdir: out,
    minify: true,
    format: "iife",
    charset: "utf8",
    legalComments: "none",
    banner: { js: `/*! Bundled:\n${licences.join("\n\n")}\n*/` },
  });
  copyFileSync(join(here, "src/index.html"), join(out, "index.html"));
}
