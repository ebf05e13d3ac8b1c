// Requests to the server of this page, with the token; errors carry the server's message.

export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function withToken(token: string): { headers: Record<string, string> } {
  return { headers: token ? { Authorization: `Bearer ${token}` } : {} };
}

const STATUSES: Record<number, string> = {
  401: "the token is not valid",
  403: "this user is not allowed to do that",
  404: "the server does not have it",
  409: "it has changed meanwhile; try again",
  413: "it is too large for the server",
  429: "the server has too many requests; try again later",
  500: "the server failed; its log says more",
  502: "the proxy does not reach the server",
  503: "the server is too busy, or stopping; try again later",
  504: "the server did not answer the proxy in time",
};

/** What a failed request means: the server's own message, or for errors of the network that it was not reached. */
export function failureInWords(error: unknown): string {
  // fetch rejects with a TypeError whose text differs from browser to browser.
  if (error instanceof TypeError) return "the server cannot be reached; is it still running?";
  return error instanceof Error ? error.message : String(error);
}

/** The message of a Kubernetes Status, or the meaning of the status code. */
export async function messageOf(response: Response): Promise<string> {
  const text = await response.text().catch(() => "");
  try {
    const status = JSON.parse(text) as { message?: unknown };
    if (typeof status.message === "string" && status.message) return status.message;
  } catch {
    // No JSON: a proxy's page, perhaps.
  }
  return STATUSES[response.status] ?? `the server answered with status ${response.status}`;
}

export interface RequestOptions {
  method?: string;
  body?: string;
  contentType?: string;
  signal?: AbortSignal;
}

export class Server {
  constructor(
    private readonly token: string,
    private readonly refused: (why: string) => void,
  ) {}

  async request<T>(path: string, { method = "GET", body, contentType, signal }: RequestOptions = {}): Promise<T> {
    return (await this.send(path, { method, ...given({ body, contentType, signal }) })).answer as T;
  }

  /** The answer and its status: 201 means created, not changed. */
  async send(path: string, options: RequestOptions): Promise<{ status: number; answer: unknown }> {
    const { headers } = withToken(this.token);
    if (options.contentType) headers["Content-Type"] = options.contentType;
    const response = await fetch(path, {
      headers,
      ...given({ method: options.method, body: options.body, signal: options.signal }),
      cache: "no-store",
    });
    if (!response.ok) {
      const message = await messageOf(response);
      if (response.status === 401) this.refused(message);
      throw new Refusal(response.status, message);
    }
    const answer: unknown = await response.json();
    // A streamed answer has sent its status before it failed: the kind says that it is an error.
    const { kind, status, message } = answer as { kind?: string; status?: unknown; message?: string };
    if (kind === "Status" && status === "Failure") throw new Refusal(response.status, message ?? "it failed");
    return { status: response.status, answer };
  }

  merge(path: string, patch: unknown): Promise<unknown> {
    return this.request(path, {
      method: "PATCH",
      body: JSON.stringify(patch),
      contentType: "application/merge-patch+json",
    });
  }
}

function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

export function query(path: string, parameters: Record<string, string>): string {
  return `${path}?${new URLSearchParams(parameters)}`;
}
