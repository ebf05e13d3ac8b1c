// Server-side apply of manifests: finds each kind's path by discovery, sends it, and reports each result.
import { Refusal, failureInWords, query, type Server } from "./requests";
import type { Document, Manifest } from "./manifests";

export interface Applied {
  what: string;
  ok: boolean;
  text: string;
  namespace?: string;
  pod?: string;
}

interface Resource {
  name: string;
  kind: string;
  namespaced: boolean;
}

export async function applyAll(
  server: Server,
  documents: readonly Document[],
  { dryRun, report }: { dryRun: boolean; report: (applied: Applied) => void },
): Promise<void> {
  const known = new Map<string, Resource[]>();
  for (const [index, document] of documents.entries()) {
    if ("error" in document) {
      report({ what: `Document ${index + 1}`, ok: false, text: document.error });
      continue;
    }
    const { manifest } = document;
    const what = `${manifest.kind} ${manifest.name || manifest.generateName}`;
    try {
      report(await applyOne(server, manifest, known, dryRun));
    } catch (error) {
      report({ what, ok: false, text: failureInWords(error) });
    }
  }
}

async function applyOne(
  server: Server,
  manifest: Manifest,
  known: Map<string, Resource[]>,
  dryRun: boolean,
): Promise<Applied> {
  const root = manifest.apiVersion.includes("/") ? `/apis/${manifest.apiVersion}` : `/api/${manifest.apiVersion}`;
  const resource = await find(server, root, manifest, known);
  const namespace = manifest.namespace || "default";
  const collection = resource.namespaced
    ? `${root}/namespaces/${encodeURIComponent(namespace)}/${resource.name}`
    : `${root}/${resource.name}`;
  const options = { fieldManager: "kuberth-page", ...(dryRun ? { dryRun: "All" } : {}) };
  // An object that the server is to name cannot be applied, only created.
  const { status, answer } = manifest.name
    ? await server.send(query(`${collection}/${encodeURIComponent(manifest.name)}`, { ...options, force: "true" }), {
        method: "PATCH",
        body: manifest.body,
        contentType: "application/apply-patch+yaml",
      })
    : await server.send(query(collection, options), {
        method: "POST",
        body: manifest.body,
        contentType: "application/yaml",
      });
  const name = (answer as { metadata?: { name?: string } }).metadata?.name ?? manifest.name;
  const result = `${status === 201 ? "created" : "configured"}${dryRun ? " (tried, not kept)" : ""}`;
  return {
    what: `${manifest.kind} ${resource.namespaced ? `${namespace}/` : ""}${name}`,
    ok: true,
    text: result,
    ...(manifest.kind === "Pod" && !dryRun ? { namespace, pod: name } : {}),
  };
}

async function find(
  server: Server,
  root: string,
  manifest: Manifest,
  known: Map<string, Resource[]>,
): Promise<Resource> {
  const among = (resources: Resource[] | undefined) =>
    resources?.find(({ kind, name }) => kind === manifest.kind && !name.includes("/"));
  // Requested again when the kind is missing: the document before this one may have defined it.
  const cached = among(known.get(root));
  if (cached) return cached;
  try {
    known.set(root, (await server.request<{ resources: Resource[] }>(root)).resources);
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) throw error;
  }
  const found = among(known.get(root));
  if (found) return found;
  throw new Error(`the server has no kind ${manifest.kind} in ${manifest.apiVersion}`);
}
