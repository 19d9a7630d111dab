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

// the search box in the header: / or Ctrl-K go there, and the best matches are listed while somebody types
const finder = document.querySelector("[data-finder]");
if (finder) {
  const list = Object.assign(document.createElement("ul"), { id: "found", className: "found", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Matches");
  finder.after(list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-controls": "found", "aria-autocomplete": "list",
                                              "aria-expanded": "false", "aria-keyshortcuts": "/ Control+K Meta+K" }))
    finder.setAttribute(name, value);
  let asked, waiting;

  const choose = (option) => {
    for (const other of list.querySelectorAll("[aria-selected=true]")) other.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) finder.setAttribute("aria-activedescendant", option.id); else finder.removeAttribute("aria-activedescendant");
  };
  const show = (isOpen) => {
    list.hidden = !isOpen;
    finder.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) choose(null);
  };
  const suggest = async () => {
    asked?.abort();
    const query = finder.value.trim();
    if (!query) return show(false);
    asked = new AbortController();
    try {
      const answer = await fetch(`/search.json?${new URLSearchParams({ q: query })}`, { signal: asked.signal });
      if (!answer.ok) return;
      const groups = await answer.json();
      let number = 0;
      list.replaceChildren(...groups.flatMap(({ kind, results }) => [
        Object.assign(document.createElement("li"), { className: "kind", textContent: kind, role: "presentation" }),
        ...results.map(({ name, address, detail }) => {
          const option = Object.assign(document.createElement("li"), { id: `found${number++}`, role: "option" });
          option.dataset.address = address;
          option.setAttribute("aria-selected", "false");
          option.append(Object.assign(document.createElement("bdi"), { textContent: name }),
                        Object.assign(document.createElement("span"), { className: "quiet", textContent: ` ${detail}` }));
          return option;
        }),
      ]));
      show(number > 0);
    } catch (error) {
      if (error.name !== "AbortError") show(false);
    }
  };
  finder.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(suggest, 100); });
  finder.addEventListener("focus", () => { if (list.childElementCount && finder.value.trim()) show(true); });
  finder.addEventListener("blur", () => show(false));
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();  // the box keeps the focus until the click
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-address]");
    if (option) location.assign(option.dataset.address);
  });
  finder.addEventListener("keydown", (event) => {
    const options = [...list.querySelectorAll("[role=option]")];
    const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "Escape") {
      if (!list.hidden) event.preventDefault();
      show(false);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden && options.length) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose(options[at < 0 && step < 0 ? options.length - 1 : (at + step + options.length) % options.length]);
    } else if (event.key === "Enter" && at >= 0 && !list.hidden) {
      event.preventDefault();
      location.assign(options[at].dataset.address);
    }
  });
  document.addEventListener("keydown", (event) => {
    const types = event.target.closest?.("input, textarea, select, [contenteditable]");
    const slash = event.key === "/" && !types && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!slash && !((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) return;
    event.preventDefault();
    if (finder.offsetParent) { finder.focus(); finder.select(); } else location.assign("/search");
  });
}

// a campaign: all rows of the page are chosen at once, and the selection is counted
for (const form of document.querySelectorAll("[data-campaign]")) {
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const all = form.querySelector("[data-select-all]");
  const count = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    form.querySelector("[data-selected]").textContent = chosen ? `${chosen} selected` : "";
    all.textContent = chosen === boxes.length && chosen ? "Clear selection" : "Select all on this page";
  };
  all.addEventListener("click", (event) => {
    event.preventDefault();
    const chosen = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = chosen;
    count();
  });
  form.addEventListener("change", count);
  count();
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
