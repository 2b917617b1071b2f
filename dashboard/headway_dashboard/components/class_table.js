// The classes as rows, on a narrow screen as cards. A press on one chooses its class for the page; another one takes the
// choice back. Rows are changed in place: the focus and a selected text stay at a refresh.

const change = (node, name, value) => {
  if (node[name] !== value) node[name] = value;
};

// The control of the classes writes into the address what is chosen in it, but not what the server chooses for it.
function intoAddress(parameter, classes) {
  const address = new URL(window.location.href);
  address.searchParams.delete(parameter);
  classes.forEach((name) => address.searchParams.append(parameter, name));
  window.history.replaceState(window.history.state, "", address);
}

function newRow(titles, press) {
  const row = document.createElement("tr");
  titles.forEach((title, column) => {
    const cell = document.createElement(column ? "td" : "th");
    if (!column) cell.scope = "row";
    cell.dataset.title = title;
    row.append(cell);
  });
  if (!press) return row;
  const button = document.createElement("button");
  button.type = "button";
  button.onclick = press;
  row.firstChild.append(button);
  row.onclick = (event) => {
    if (event.target !== button && !window.getSelection()?.toString()) press();
  };
  return row;
}

function fill(row, { cells, chosen }) {
  cells.forEach(({ text, tone }, column) => {
    const cell = row.children[column];
    const button = cell.querySelector("button");
    change(button ?? cell, "textContent", text);
    button?.setAttribute("aria-pressed", chosen);
    change(cell, "className", tone);
  });
  row.classList.toggle("headway-chosen", chosen);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const table = parentElement.querySelector(".headway-class-rows");
  const state = (table.__headway ??= { rows: new Map(), titles: "" });
  state.choose = (name) => {
    const chosen = data.rows.filter((row) => row.chosen).map((row) => row.cells[0].text);
    const classes = `${chosen}` === name ? [] : [name];
    intoAddress(data.parameter, classes);
    setTriggerValue("classes", classes);
  };
  table.classList.toggle("headway-pressable", data.pressable);
  if (state.titles !== `${data.titles}`) {
    state.titles = `${data.titles}`;
    state.rows.clear();
    table.tBodies[0].replaceChildren();
    const heads = data.titles.map((title) => Object.assign(document.createElement("th"), { scope: "col", textContent: title }));
    table.tHead.rows[0].replaceChildren(...heads);
  }
  const names = data.rows.map((row) => row.cells[0].text);
  for (const [name, row] of state.rows) {
    if (!names.includes(name)) {
      row.remove();
      state.rows.delete(name);
    }
  }
  data.rows.forEach((one, at) => {
    const name = names[at];
    if (!state.rows.has(name)) state.rows.set(name, newRow(data.titles, data.pressable && (() => state.choose(name))));
    const row = state.rows.get(name);
    fill(row, one);
    if (table.tBodies[0].rows[at] !== row) table.tBodies[0].insertBefore(row, table.tBodies[0].rows[at] ?? null);
  });
}
