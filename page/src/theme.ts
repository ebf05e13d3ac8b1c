// Dark or light: as the system says, or as chosen here.
import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";
const KEY = "kuberth-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function setTheme(chosen: Theme): void {
  if (chosen === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  showTheme();
}

export function showTheme(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

const isDark = (): boolean => (theme() === "system" ? system.matches : theme() === "dark");

system.addEventListener("change", showTheme);

/** Whether the theme is dark; a canvas has to be redrawn when that changes. */
export function useDarkness(): boolean {
  const [dark, setDark] = useState(isDark());
  useEffect(() => {
    const look = () => setDark(isDark());
    listeners.add(look);
    return () => {
      listeners.delete(look);
    };
  }, []);
  return dark;
}
