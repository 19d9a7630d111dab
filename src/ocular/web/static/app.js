// Everything works without this file. With it, squares of the evidence tell what they stand for and names are completed.
"use strict";

// names of products are fetched when somebody begins to type one
document.addEventListener("focusin", async (event) => {
  const list = event.target.matches("[data-products]") && event.target.list;
  if (!list || list.dataset.filled) return;
  list.dataset.filled = "yes";
  const names = await (await fetch("/products")).json();
  list.replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
});

for (const matrix of document.querySelectorAll("[data-matrix]")) {
  const tell = matrix.closest(".reason").querySelector(".tell");
  const rows = [...matrix.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
  const say = (cell) => { if (cell && cell.dataset.tell) tell.textContent = cell.dataset.tell + "."; };
  matrix.addEventListener("pointerover", (event) => say(event.target.closest("td")));
  matrix.addEventListener("focusin", (event) => say(event.target.closest("td")));

  // one square is reached by Tab, the others from there by the arrow keys
  rows[0][rows[0].length - 1].tabIndex = 0;
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  matrix.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    const row = rows.findIndex((cells) => cells.includes(event.target));
    if (!move || row < 0) return;
    const next = rows[row + move[0]]?.[rows[row].indexOf(event.target) + move[1]];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
