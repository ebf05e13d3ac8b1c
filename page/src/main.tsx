import { render } from "preact";
import { App } from "./app";
import { showTheme } from "./theme";
import "./app.css";

showTheme();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<App />, root);
}
