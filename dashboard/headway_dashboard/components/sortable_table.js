// A table whose rows are links. Rows are changed in place: the order, the focus and a selected text stay at a refresh.
// The order is kept by the name of the table as long as the document lives, also where the page changes between.

const orders = (window.__headwayOrders ??= {});

const NEXT = { none: "descending", descending: "ascending", ascending: "none" };

// Values before gaps, in either direction; texts by the reader's alphabet, numbers inside them by their value.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * `${one}`.localeCompare(`${other}`, undefined, { numeric: true });
}

function sorted(rows, { column, order }) {
  if (order === "none") return rows;
  const sign = order === "ascending" ? 1 : -1;
  return [...rows].sort((one, other) => compare(one.cells[column].value, other.cells[column].value, sign));
}

// What else stands in the address stays: the range, the classes, a fixed time.
function address({ parameter, path }, key) {
  const query = new URLSearchParams(window.location.search);
  query.set(parameter, key);
  return `./${path}?${query}`;
}

const change = (node, name, value) => {
  if (node[name] !== value) node[name] = value;
};

function heads(state, redraw) {
  const row = document.createElement("tr");
  state.data.headings.forEach((heading, column) => {
    const head = document.createElement("th");
    head.scope = "col";
    if (heading.numeric) head.className = "headway-number";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.title;
    button.title = heading.help;
    button.onclick = () => {
      const order = state.sort.column === column ? NEXT[state.sort.order] : "descending";
      state.sort = orders[state.data.name] = { column, order };
      redraw();
    };
    head.append(button);
    row.append(head);
  });
  return row;
}

function newRow(state, key) {
  const row = document.createElement("tr");
  state.data.headings.forEach((heading, column) => {
    const cell = document.createElement(column ? "td" : "th");
    if (column) cell.className = heading.numeric ? "headway-number" : "";
    else cell.scope = "row";
    row.append(cell);
  });
  if (key === null) return row;
  row.firstChild.append(document.createElement("a"));
  row.onclick = (event) => {
    const link = row.querySelector("a");
    if (event.target !== link && !window.getSelection()?.toString()) link.click();
  };
  return row;
}

function fill(row, cells, data, key) {
  cells.forEach((cell, column) => {
    const node = row.children[column];
    const link = node.querySelector("a");
    change(link ?? node, "textContent", cell.text);
    if (link && link.getAttribute("href") !== address(data, key)) link.href = address(data, key);
    change(node, "title", cell.note);
  });
}

function draw(state) {
  const { table, data, sort, rows } = state;
  [...table.tHead.rows[0].children].forEach((head, at) => {
    head.setAttribute("aria-sort", at === sort.column ? sort.order : "none");
  });
  const wanted = sorted(data.rows, sort);
  const keys = new Set(wanted.map((one) => one.key));
  for (const [key, row] of rows) {
    if (!keys.has(key)) {
      row.remove();
      rows.delete(key);
    }
  }
  const focused = document.activeElement;
  wanted.forEach(({ key, cells }, at) => {
    if (!rows.has(key)) rows.set(key, newRow(state, key));
    const row = rows.get(key);
    fill(row, cells, data, key);
    if (table.tBodies[0].rows[at] !== row) table.tBodies[0].insertBefore(row, table.tBodies[0].rows[at] ?? null);
  });
  if (focused !== document.activeElement && table.contains(focused)) focused.focus({ preventScroll: true });
  fill(table.tFoot.rows[0], data.total, data, null);
}

export default function ({ data, parentElement }) {
  const host = parentElement.querySelector(".headway-rows");
  const table = host.querySelector("table");
  const first = !host.__headway;
  const state = (host.__headway ??= { table, rows: new Map(), sort: orders[data.name] ?? { column: 0, order: "none" } });
  state.data = data;
  host.setAttribute("role", "region");
  host.setAttribute("aria-label", data.name);
  table.setAttribute("aria-label", data.name);
  if (first) {
    table.tHead.append(heads(state, () => draw(state)));
    table.tFoot.append(newRow(state, null));
  }
  draw(state);
}
