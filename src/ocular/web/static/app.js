// Everything works without this file. With it, squares of the evidence tell what they stand for, names are completed, and
// a form that was accepted says so.
"use strict";

// names of products are fetched when somebody begins to type one
document.addEventListener("focusin", async (event) => {
  const list = event.target.matches("[data-products]") && event.target.list;
  if (!list || list.dataset.filled) return;
  list.dataset.filled = "yes";
  const products = await (await fetch("/products")).json();
  list.replaceChildren(...products.map(({ label, name }) => {
    const option = Object.assign(document.createElement("option"), { value: label });
    if (name !== label) option.label = name;
    return option;
  }));
});

// the server answers a form with another page: what to say there is kept until then, and dropped where something is wrong
document.addEventListener("submit", (event) => {
  if (event.target.dataset.done) sessionStorage.setItem("done", event.target.dataset.done);
});
const done = sessionStorage.getItem("done");
sessionStorage.removeItem("done");
const place = document.querySelector("[data-done-here]");
const came = performance.getEntriesByType("navigation")[0]?.type === "navigate";  // not back, not again
if (done && place && came && !document.querySelector("main [role=alert]")) place.textContent = done;

for (const matrix of document.querySelectorAll("[data-matrix]")) {
  const tell = matrix.closest(".reason, .figure").querySelector(".tell");
  const rows = [...matrix.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
  const heads = [...matrix.tHead.rows[0].cells].map((head) => head.textContent);
  const words = (cell) => `${cell.parentNode.cells[0].textContent}, ${heads[cell.cellIndex]}: ${cell.textContent}`;
  const say = (cell) => { if (cell) tell.textContent = (cell.dataset.tell ?? words(cell)) + "."; };
  // squares that scroll under a mouse at rest say nothing: the keyboard has the word
  let at = "";
  const point = (event) => {
    const now = `${event.screenX},${event.screenY}`;
    if (now !== at) say(event.target.closest("td"));
    at = now;
  };
  matrix.addEventListener("pointerover", point);
  matrix.addEventListener("pointermove", point);
  matrix.addEventListener("focusin", (event) => say(event.target.closest("td")));

  // one square is reached by Tab, the others from there by arrow keys, Home and End (with Control: of all squares)
  const last = rows[0].length - 1;
  rows[0][last].tabIndex = 0;
  matrix.addEventListener("keydown", (event) => {
    const row = rows.findIndex((cells) => cells.includes(event.target));
    if (row < 0) return;
    if (event.key === "Enter") event.target.querySelector("a")?.click();
    const column = rows[row].indexOf(event.target);
    const places = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? rows.length - 1 : row, last],
    };
    const next = places[event.key] && rows[places[event.key][0]]?.[places[event.key][1]];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// a menu of Today closes by Escape and by a click elsewhere
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest("details.more[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.more[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// a visit brief is printed from its own button; without this file by the browser's menu
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}
