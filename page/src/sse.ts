// Server-sent events out of text that comes in pieces of any size.

export interface ServerEvent {
  name: string;
  data: string;
}

export class EventReader {
  private rest = "";
  private name = "";
  private data: string[] = [];

  /** The events that this piece completes. */
  read(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const ended of lines) {
      const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
      if (line === "") {
        if (this.data.length > 0) events.push({ name: this.name || "message", data: this.data.join("\n") });
        this.name = "";
        this.data = [];
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (field === "event") this.name = value;
        else if (field === "data") this.data.push(value);
      }
    }
    return events;
  }
}
