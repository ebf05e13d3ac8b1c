// Splits pasted manifests into documents. In: YAML or JSON, several documents. Out: the text of each one, which
// the server parses, and the fields that this page needs to find its path.
import { loadAll } from "js-yaml";

export interface Manifest {
  apiVersion: string;
  kind: string;
  namespace: string;
  name: string;
  generateName: string;
  body: string;
}

export type Document = { manifest: Manifest } | { error: string };

export function readManifests(text: string): Document[] {
  return pieces(text).flatMap((body) => {
    let tree: unknown;
    try {
      [tree] = loadAll(body);
    } catch (error) {
      return [{ error: error instanceof Error ? error.message : String(error) }];
    }
    if (tree === null || tree === undefined) return [];
    const items = field(tree, "items");
    if (typeof field(tree, "kind") === "string" && String(field(tree, "kind")).endsWith("List") && Array.isArray(items))
      return items.map((item) => described(item, JSON.stringify(item)));
    return [described(tree, body)];
  });
}

/** A line that starts with --- ends a document wherever it stands, also within a block of text. */
function pieces(text: string): string[] {
  return text
    .replaceAll("\r\n", "\n")
    .split(/^---(?=\s|$)(?:[ \t]*(?:#.*)?$)?/m)
    .filter((piece) => piece.trim() !== "");
}

function described(tree: unknown, body: string): Document {
  if (typeof tree !== "object" || tree === null || Array.isArray(tree))
    return { error: "expected an object with apiVersion, kind and metadata" };
  const metadata = field(tree, "metadata");
  const found = {
    apiVersion: field(tree, "apiVersion"),
    kind: field(tree, "kind"),
    "metadata.name": field(metadata, "name") ?? "",
    "metadata.generateName": field(metadata, "generateName") ?? "",
    "metadata.namespace": field(metadata, "namespace") ?? "",
  };
  for (const [name, value] of Object.entries(found)) {
    if (value === undefined) return { error: `${name} is missing` };
    if (typeof value !== "string")
      return { error: `${name}: expected a text, got ${JSON.stringify(value)}; put it into quotes` };
  }
  const fields = found as Record<keyof typeof found, string>;
  if (!fields["metadata.name"] && !fields["metadata.generateName"]) return { error: "metadata.name is missing" };
  return {
    manifest: {
      apiVersion: fields.apiVersion,
      kind: fields.kind,
      name: fields["metadata.name"],
      generateName: fields["metadata.generateName"],
      namespace: fields["metadata.namespace"],
      body,
    },
  };
}

function field(tree: unknown, name: string): unknown {
  return typeof tree === "object" && tree !== null && Object.hasOwn(tree, name)
    ? (tree as Record<string, unknown>)[name]
    : undefined;
}
